#include "logit_edits.h"

namespace xuanzang {

LogitEdits::LogitEdits(const Context& context, size_t first, size_t rows, size_t vocab_size) {
  const auto ids = context.input<int64_t>(first);
  const auto penalties = context.input<float>(first + 1), biases = context.input<float>(first + 2);
  require(ids.rank == 3 && ids.size(0) * ids.size(1) == rows, "the edits are not of the hypotheses");
  require(penalties.shape == ids.shape && biases.shape == ids.shape, "an edit has no penalty or no bias");
  const auto exists = [&](int64_t id) { return id >= 0 && static_cast<size_t>(id) < vocab_size; };
  require(std::all_of(ids.data, ids.data + ids.elements(), exists), "an edited piece does not exist");
  per_row_ = ids.size(2);
  edits_.reserve(ids.elements());
  for (size_t at = 0; at < ids.elements(); ++at) {
    edits_.push_back({static_cast<size_t>(ids.data[at]), penalties.data[at], biases.data[at]});
  }
  for (auto row = edits_.begin(); row != edits_.end(); row += per_row_) std::stable_sort(row, row + per_row_);
}

void LogitEdits::apply(size_t row, size_t first, size_t count, float* logits) const {
  if (edits_.empty()) return;
  const auto begin = edits_.begin() + row * per_row_, end = begin + per_row_;
  for (auto edit = std::lower_bound(begin, end, Edit{first, 0, 0}); edit != end && edit->id < first + count; ++edit) {
    // Of several for one id the last counts.
    if (edit + 1 != end && edit[1].id == edit->id) continue;
    float& logit = logits[edit->id - first];
    // x · p² / p where x is negative, x / p elsewhere.
    const float slope = logit < 0 ? edit->penalty * edit->penalty * logit : logit;
    logit = slope / edit->penalty + edit->bias;
  }
}

}  // namespace xuanzang
