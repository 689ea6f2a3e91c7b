#include "continuations.h"

#include <cmath>
#include <vector>

#include "best.h"
#include "selection.h"

namespace xuanzang {
namespace {

// Buffers that a thread keeps from one row to the next.
struct Buffers {
  std::vector<float> maxima;
  Best groups, row;
  Selection selection;
};

// Finds the best log-probabilities of a row and their ids: buffers.row.
//
// The best n of a row lie in the n groups with the greatest maxima, so only these are searched.
void search_row(const Simd& simd, const float* logits, size_t vocab_size, size_t count,
                const Tensor<const int64_t>& banned, Buffers& buffers) {
  buffers.maxima.resize((vocab_size + kBlock - 1) / kBlock * kMaxWidth);
  const float maximum = simd.find_maxima(logits, vocab_size, buffers.maxima.data());
  const float norm = maximum + std::log(simd.sum_exponentials(logits, vocab_size, maximum));
  // Banned ids may be among the best.
  buffers.groups.start(count + banned.elements());
  for (size_t group = 0; group < buffers.maxima.size(); ++group) {
    if (buffers.maxima[group] >= buffers.groups.threshold()) buffers.groups.add({buffers.maxima[group], group});
  }
  const float threshold = buffers.groups.threshold();
  const int64_t* const last = banned.data + banned.elements();
  buffers.row.start(count);
  for (const Choice& group : buffers.groups.choices()) {
    const size_t first = group.index / kMaxWidth * kBlock + group.index % kMaxWidth;
    for (size_t id = first; id < std::min(first / kBlock * kBlock + kBlock, vocab_size); id += kMaxWidth) {
      if (logits[id] < threshold) continue;
      const bool is_banned = std::find(banned.data, last, static_cast<int64_t>(id)) != last;
      buffers.row.add({is_banned ? kBanned : logits[id] - norm, id});
    }
  }
  // Logits that are infinite or no numbers may have been skipped; callers count on `count` choices.
  for (size_t id = 0; buffers.row.choices().size() < count; ++id) buffers.row.add({kBanned, id});
}

}  // namespace

void BestContinuations::compute(const Context& context) {
  const auto logits = context.input<float>(0), scores = context.input<float>(1);
  const auto wanted = context.input<int64_t>(2), banned = context.input<int64_t>(3);
  require(logits.rank == 3 && scores.rank == 2 && banned.rank == 1, "an input has the wrong dimensions");
  require(wanted.elements() == 1 && wanted.data[0] > 0, "the number of continuations is not a positive number");
  const size_t batch = logits.size(0), beam = logits.size(1), vocab_size = logits.size(2);
  require(beam && vocab_size, "there is nothing to choose from");
  require(scores.size(0) == batch && scores.size(1) == beam, "there is not one score for each hypothesis");
  const size_t per_row = std::min(static_cast<size_t>(wanted.data[0]), vocab_size);
  const size_t count = std::min(static_cast<size_t>(wanted.data[0]), beam * per_row);

  const auto totals = context.output<float>(0, {batch, count});
  const auto ids = context.output<int64_t>(1, {batch, count});
  const auto parents = context.output<int64_t>(2, {batch, count});
  require(ids.data && parents.data, "an output is not used");
  // An exponential takes as long as ten multiplications.
  context.parallel(batch, batch * beam * vocab_size * 10, [&](size_t sentence) {
    thread_local Buffers buffers;
    buffers.selection.start(count);
    for (size_t i = 0; i < beam; ++i) {
      const size_t row = sentence * beam + i;
      search_row(context.simd(), logits.data + row * vocab_size, vocab_size, per_row, banned, buffers);
      buffers.selection.add(scores.data[row], buffers.row.choices());
    }
    const size_t first = sentence * count;
    buffers.selection.write(totals.data + first, ids.data + first, parents.data + first);
  });
}

}  // namespace xuanzang
