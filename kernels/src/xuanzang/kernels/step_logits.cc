#include "step_logits.h"

#include <numeric>

namespace xuanzang {

StepLogits::StepLogits(const Context& context, const PackedColumns& columns, const Shortlist* shortlist, size_t edits,
                       Buffers& buffers)
    : simd_(context.simd()),
      columns_(columns),
      shortlist_(shortlist),
      buffers_(buffers),
      x_(context.input<uint8_t>(0)),
      edits_(context, edits, rows(), vocab_size()) {
  require(x_.rank == 3, "an input has the wrong dimensions");
  require(x_.size(2) == columns.width(), "x and columns differ in width");
  require(beam() && vocab_size(), "there is nothing to choose from");
}

void StepLogits::choose_rows(const float* scores) {
  buffers_.live.clear();
  for (size_t row = 0; row < rows(); ++row) {
    if (!(scores[row] < kDead)) buffers_.live.push_back(row);
  }
  gather_states();
}

void StepLogits::choose_all_rows() {
  buffers_.live.resize(rows());
  std::iota(buffers_.live.begin(), buffers_.live.end(), size_t{0});
  gather_states();
}

void StepLogits::gather_states() {
  const size_t depth = columns_.depth(), width = columns_.width();
  buffers_.states.assign(live().size() * depth, 0);
  for (size_t at = 0; at < live().size(); ++at) {
    std::copy_n(x_.data + live()[at] * width, width, buffers_.states.data() + at * depth);
  }
}

float StepLogits::at(size_t row, size_t position) const {
  const size_t common = columns_.vocab_size();
  const size_t block = position < common ? position / kBlock : columns_.blocks() + (position - common) / kBlock;
  Tile tile;
  compute(block, row, 1, tile);
  return tile.of_rows[0][position - first(block)];
}

size_t StepLogits::compute(size_t block, size_t from, size_t most, Tile& tile) const {
  const bool is_common = block < columns_.blocks();
  const size_t count = is_common ? project(block, from, most, tile) : multiply_own(block, from, most, tile);
  for (size_t i = 0; i < count; ++i) edits_.apply(live()[from + i], first(block), size(block), tile.of_rows[i]);
  return count;
}

size_t StepLogits::project(size_t block, size_t from, size_t most, Tile& tile) const {
  // In parts of about one size.
  const size_t parts = (most + simd_.projected - 1) / simd_.projected, count = (most + parts - 1) / parts;
  const uint8_t* const states = buffers_.states.data() + from * columns_.depth();
  simd_.project(columns_.panels(), block, states, count, tile.of_rows[0], kBlock);
  return count;
}

size_t StepLogits::multiply_own(size_t block, size_t from, size_t most, Tile& tile) const {
  const size_t row = live()[from], sentence = row / beam(), end = (sentence + 1) * beam();
  most = std::min({most, kProjected, end - row});
  size_t count = 1;
  while (count < most && live()[from + count] == row + count) ++count;
  const OwnColumns& own = shortlist_->own;
  const int64_t* const ids = own.of(sentence) + first(block) - columns_.vocab_size();
  simd_.multiply_columns(own.columns, x_.data + row * columns_.width(), count, ids, size(block), tile.of_rows[0],
                         kBlock);
  return count;
}

}  // namespace xuanzang
