#include "projected_continuations.h"

#include <cmath>
#include <memory>
#include <vector>

#include "best.h"
#include "logit_edits.h"
#include "selection.h"

namespace xuanzang {
namespace {

// What a thread keeps from one step to the next.
struct Buffers {
  std::vector<size_t> live;         // The rows that have continuations.
  std::vector<uint8_t> states;      // Of these rows, [live row, depth].
  std::vector<float> maxima, sums;  // Of the logits of each block and of their exponentials, [row, block].
  std::vector<Best> found, best;    // Of the logits, [part, row]; of the log-probabilities, [row].
  std::vector<float> norms;         // Logarithms of the sums of all exponentials, [row].
  Selection selection;
};

// The hypotheses of a step and their logits, which exist block by block only.
class Step {
 public:
  Step(const Context& context, const PackedColumns& columns, Buffers& buffers)
      : simd_(context.simd()),
        columns_(columns),
        panels_(columns.panels()),
        buffers_(buffers),
        x_(context.input<uint8_t>(0)),
        scores_(context.input<float>(6)),
        banned_(context.input<int64_t>(8)),
        batch_(x_.size(0)),
        beam_(x_.size(1)),
        edits_(context, 9, batch_ * beam_, columns.vocab_size()) {
    require(x_.rank == 3 && banned_.rank == 1, "an input has the wrong dimensions");
    require(x_.size(2) == columns.width(), "x and columns differ in width");
    require(scores_.rank == 2 && scores_.size(0) == batch_ && scores_.size(1) == beam_,
            "there is not one score for each hypothesis");
    const auto wanted = context.input<int64_t>(7);
    require(wanted.elements() == 1 && wanted.data[0] > 0, "the number of continuations is not a positive number");
    require(beam_ && columns.vocab_size(), "there is nothing to choose from");
    per_row_ = std::min(static_cast<size_t>(wanted.data[0]), columns.vocab_size());
    count_ = std::min(static_cast<size_t>(wanted.data[0]), beam_ * per_row_);
  }

  size_t rows() const { return batch_ * beam_; }

  // Finds the best log-probabilities of all hypotheses.
  void search(const Context& context) {
    // Parts of the vocabulary for the threads; what is found does not depend on them.
    constexpr size_t kParts = 4;
    choose_rows(context);
    buffers_.maxima.resize(rows() * columns_.blocks());
    buffers_.sums.resize(rows() * columns_.blocks());
    if (buffers_.found.size() < kParts * rows()) buffers_.found.resize(kParts * rows());
    if (buffers_.best.size() < rows()) buffers_.best.resize(rows());
    buffers_.norms.resize(rows());
    floors_ = std::make_unique<std::atomic<float>[]>(rows());
    for (size_t row = 0; row < rows(); ++row) floors_[row] = std::numeric_limits<float>::lowest();
    // One hypothesis waits for the matrix, which takes as long as its multiplication by floats.
    const auto& live = buffers_.live;
    context.parallel(kParts, live.size() * panels_.depth * columns_.vocab_size() / 2, [&](size_t part) {
      Best* const found = buffers_.found.data() + part * rows();
      for (const size_t row : live) found[row].start(per_row_);
      const size_t blocks = columns_.blocks(), end = blocks * (part + 1) / kParts;
      for (size_t block = blocks * part / kParts; block < end; ++block) search_block(block, found);
    });
    for (size_t row = 0; row < rows(); ++row) buffers_.best[row].start(per_row_);
    for (const size_t row : live) finish(row, kParts);
    for (size_t row = 0; row < rows(); ++row) fill(buffers_.best[row]);
  }

  void write_continuations(const Context& context) {
    const auto totals = context.output<float>(0, {batch_, count_});
    const auto ids = context.output<int64_t>(1, {batch_, count_});
    const auto parents = context.output<int64_t>(2, {batch_, count_});
    require(ids.data && parents.data, "an output is not used");
    for (size_t sentence = 0; sentence < batch_; ++sentence) {
      buffers_.selection.start(count_);
      for (size_t row = sentence * beam_; row < (sentence + 1) * beam_; ++row) {
        buffers_.selection.add(scores_.data[row], buffers_.best[row].choices());
      }
      const size_t first = sentence * count_;
      buffers_.selection.write(totals.data + first, ids.data + first, parents.data + first);
    }
  }

  void write_inspected(const Context& context) {
    const auto inspected = context.input<int64_t>(12), required = context.input<int64_t>(13);
    require(inspected.rank == 1 && required.rank == 2 && required.size(0) == inspected.elements(),
            "there are not required pieces for each inspected hypothesis");
    const size_t count = inspected.elements(), width = required.size(1);
    const auto scores = context.output<float>(3, {count, per_row_});
    const auto ids = context.output<int64_t>(4, {count, per_row_});
    const auto asked = context.output<float>(5, {count, width});
    require(!count || (scores.data && ids.data && (asked.data || !width)), "an output is not used");
    for (size_t i = 0; i < count; ++i) {
      const size_t row = static_cast<size_t>(inspected.data[i]);
      require(row < rows(), "an inspected hypothesis does not exist");
      for (size_t rank = 0; rank < per_row_; ++rank) {
        const Choice& choice = buffers_.best[row].choices()[rank];
        scores.data[i * per_row_ + rank] = choice.value;
        ids.data[i * per_row_ + rank] = static_cast<int64_t>(choice.index);
      }
      for (size_t at = i * width; at < (i + 1) * width; ++at) asked.data[at] = log_probability(row, required.data[at]);
    }
  }

 private:
  struct alignas(64) Logits {
    float of_rows[kProjected][kBlock];
  };

  void choose_rows(const Context& context) {
    const bool has_inspected = context.input<int64_t>(12).elements();
    auto& live = buffers_.live;
    auto& states = buffers_.states;
    live.clear();
    for (size_t row = 0; row < rows(); ++row) {
      if (has_inspected || !(scores_.data[row] < kDead)) live.push_back(row);
    }
    states.assign(live.size() * panels_.depth, 0);
    for (size_t at = 0; at < live.size(); ++at) {
      std::copy_n(x_.data + live[at] * columns_.width(), columns_.width(), states.data() + at * panels_.depth);
    }
  }

  // Computes a block of the logits of some live rows, the first of which is number `first` of them.
  void project(size_t block, size_t first, size_t count, Logits& logits) const {
    simd_.project(panels_, block, buffers_.states.data() + first * panels_.depth, count, logits.of_rows[0], kBlock);
    for (size_t i = 0; i < count; ++i) {
      edits_.apply(buffers_.live[first + i], block * kBlock, columns_.block_size(block), logits.of_rows[i]);
    }
  }

  void search_block(size_t block, Best* found) {
    Logits logits;
    const auto& live = buffers_.live;
    size_t at = 0;
    for (size_t left = (live.size() + kProjected - 1) / kProjected; left; --left) {
      const size_t count = (live.size() - at + left - 1) / left;
      project(block, at, count, logits);
      for (size_t i = 0; i < count; ++i, ++at) search_logits(block, live[at], logits.of_rows[i], found[live[at]]);
    }
  }

  void search_logits(size_t block, size_t row, const float* logits, Best& found) {
    float groups[kMaxWidth];
    const size_t size = columns_.block_size(block), at = row * columns_.blocks() + block;
    const float maximum = buffers_.maxima[at] = simd_.find_maxima(logits, size, groups);
    buffers_.sums[at] = simd_.sum_exponentials(logits, size, maximum);
    float floor = std::max(found.threshold(), floors_[row].load(std::memory_order_relaxed));
    if (maximum < floor) return;
    for (size_t group = 0; group < kMaxWidth; ++group) {
      if (groups[group] < floor) continue;
      for (size_t i = group; i < size; i += kMaxWidth) {
        if (logits[i] < floor || is_banned(block * kBlock + i)) continue;
        found.add({logits[i], block * kBlock + i});
        floor = std::max(floor, found.threshold());
      }
    }
    floors_[row].store(floor, std::memory_order_relaxed);
  }

  bool is_banned(size_t id) const {
    const int64_t* const end = banned_.data + banned_.elements();
    return std::find(banned_.data, end, static_cast<int64_t>(id)) != end;
  }

  // Turns what was found of a hypothesis into its best log-probabilities.
  void finish(size_t row, size_t parts) {
    const size_t first = row * columns_.blocks(), end = first + columns_.blocks();
    const float maximum = *std::max_element(buffers_.maxima.begin() + first, buffers_.maxima.begin() + end);
    float sum = 0;
    for (size_t at = first; at < end; ++at) sum += buffers_.sums[at] * std::exp(buffers_.maxima[at] - maximum);
    const float norm = buffers_.norms[row] = maximum + std::log(sum);
    Best& best = buffers_.best[row];
    for (size_t part = 0; part < parts; ++part) {
      for (const Choice& choice : buffers_.found[part * rows() + row].choices()) {
        best.add({choice.value - norm, choice.index});
      }
    }
    for (size_t i = 0; i < banned_.elements(); ++i) best.add({kBanned, static_cast<size_t>(banned_.data[i])});
  }

  // Callers count on `per_row_` choices, also of no hypothesis, or where logits that are infinite or no numbers were
  // skipped.
  void fill(Best& best) const {
    for (size_t id = 0; best.choices().size() < per_row_; ++id) best.add({kBanned, id});
  }

  // Log-probability of a piece after an inspected hypothesis; all rows are live then.
  float log_probability(size_t row, int64_t piece) const {
    const size_t id = static_cast<size_t>(piece);
    require(id < columns_.vocab_size(), "a required piece does not exist");
    Logits logits;
    project(id / kBlock, row, 1, logits);
    return logits.of_rows[0][id % kBlock] - buffers_.norms[row];
  }

  const Simd& simd_;
  const PackedColumns& columns_;
  const Panels panels_;
  Buffers& buffers_;
  const Tensor<const uint8_t> x_;
  const Tensor<const float> scores_;
  const Tensor<const int64_t> banned_;
  const size_t batch_, beam_;
  const LogitEdits edits_;
  size_t per_row_, count_;
  std::unique_ptr<std::atomic<float>[]> floors_;  // Logits below this are not among the best of a hypothesis.
};

}  // namespace

void ProjectedContinuations::compute(const Context& context, const Kept& kept) {
  thread_local Buffers buffers;
  PackedColumns given;
  Step step(context, kept.columns.or_read(context, kFirstOfMatrix, given), buffers);
  step.search(context);
  step.write_continuations(context);
  step.write_inspected(context);
}

}  // namespace xuanzang
