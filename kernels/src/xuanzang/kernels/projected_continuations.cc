#include "projected_continuations.h"

#include <cmath>
#include <memory>
#include <vector>

#include "best.h"
#include "selection.h"
#include "step_logits.h"

namespace xuanzang {
namespace {

// State that a thread keeps from one step to the next.
struct Buffers {
  StepLogits::Buffers logits;
  std::vector<float> maxima, sums;  // Per block, of logits and their exponentials, [row, block].
  std::vector<Best> found, best;    // Logits, [part, row]; log-probabilities, [row].
  std::vector<float> norms;         // Logarithms of the sums of all exponentials, [row].
  Selection selection;
};

// Inputs, from the scores on, by their distance from them.
enum Input : size_t {
  kScoresInput,
  kCountInput,
  kBannedInput,
  kEditsInput,
  kInspectedInput = kEditsInput + 3,
  kRequiredInput
};

// The hypotheses of a step and their best continuations.
class Step {
 public:
  Step(const Context& context, const PackedColumns& columns, const Shortlist* shortlist, size_t first, Buffers& buffers)
      : simd_(context.simd()),
        buffers_(buffers),
        logits_(context, columns, shortlist, first + kEditsInput, buffers.logits),
        scores_(context.input<float>(first + kScoresInput)),
        banned_(context.input<int64_t>(first + kBannedInput)),
        inspected_(context.input<int64_t>(first + kInspectedInput)),
        required_(context.input<int64_t>(first + kRequiredInput)) {
    require(banned_.rank == 1, "an input has the wrong dimensions");
    require(scores_.rank == 2 && scores_.size(0) == logits_.batch() && scores_.size(1) == logits_.beam(),
            "there is not one score for each hypothesis");
    require(inspected_.rank == 1 && required_.rank == 2 && required_.size(0) == inspected_.elements(),
            "there are not required pieces for each inspected hypothesis");
    const auto wanted = context.input<int64_t>(first + kCountInput);
    require(wanted.elements() == 1 && wanted.data[0] > 0, "the number of continuations is not a positive number");
    per_row_ = std::min(static_cast<size_t>(wanted.data[0]), logits_.vocab_size());
    count_ = std::min(static_cast<size_t>(wanted.data[0]), logits_.beam() * per_row_);
  }

  // Finds the best log-probabilities of all hypotheses.
  void search(const Context& context) {
    // Parts of the vocabulary for the threads; results do not depend on them.
    constexpr size_t kParts = 4;
    const size_t blocks = logits_.blocks(), rows = logits_.rows();
    if (inspected_.elements()) {
      logits_.choose_all_rows();
    } else {
      logits_.choose_rows(scores_.data);
    }
    start(kParts);
    const auto& live = logits_.live();
    // One hypothesis waits for the matrix, which takes as long as its multiplication by floats.
    context.parallel(kParts, logits_.operations() / 2, [&](size_t part) {
      Best* const found = buffers_.found.data() + part * rows;
      for (const size_t row : live) found[row].start(per_row_);
      const size_t end = blocks * (part + 1) / kParts;
      for (size_t block = blocks * part / kParts; block < end; ++block) {
        logits_.for_each(block,
                         [&](size_t row, const float* logits) { search_logits(block, row, logits, found[row]); });
      }
    });
    for (size_t row = 0; row < rows; ++row) buffers_.best[row].start(per_row_);
    for (const size_t row : live) finish(row, kParts);
    for (size_t row = 0; row < rows; ++row) fill(buffers_.best[row]);
  }

  void write_continuations(const Context& context) {
    const size_t batch = logits_.batch(), beam = logits_.beam();
    const auto totals = context.output<float>(0, {batch, count_});
    const auto ids = context.output<int64_t>(1, {batch, count_});
    const auto parents = context.output<int64_t>(2, {batch, count_});
    require(ids.data && parents.data, "an output is not used");
    for (size_t sentence = 0; sentence < batch; ++sentence) {
      buffers_.selection.start(count_);
      for (size_t row = sentence * beam; row < (sentence + 1) * beam; ++row) {
        buffers_.selection.add(scores_.data[row], buffers_.best[row].choices());
      }
      const size_t first = sentence * count_;
      buffers_.selection.write(totals.data + first, ids.data + first, parents.data + first);
      for (size_t at = first; at < first + count_; ++at) ids.data[at] = id(sentence, ids.data[at]);
    }
  }

  void write_inspected(const Context& context) {
    const size_t count = inspected_.elements(), width = required_.size(1);
    const auto scores = context.output<float>(3, {count, per_row_});
    const auto ids = context.output<int64_t>(4, {count, per_row_});
    const auto asked = context.output<float>(5, {count, width});
    require(!count || (scores.data && ids.data && (asked.data || !width)), "an output is not used");
    for (size_t i = 0; i < count; ++i) {
      const size_t row = static_cast<size_t>(inspected_.data[i]);
      require(row < logits_.rows(), "an inspected hypothesis does not exist");
      for (size_t rank = 0; rank < per_row_; ++rank) {
        const Choice& choice = buffers_.best[row].choices()[rank];
        scores.data[i * per_row_ + rank] = choice.value;
        ids.data[i * per_row_ + rank] = logits_.id(row / logits_.beam(), choice.index);
      }
      for (size_t at = i * width; at < (i + 1) * width; ++at) asked.data[at] = log_probability(row, required_.data[at]);
    }
  }

 private:
  void start(size_t parts) {
    const size_t rows = logits_.rows();
    buffers_.maxima.resize(rows * logits_.blocks());
    buffers_.sums.resize(rows * logits_.blocks());
    if (buffers_.found.size() < parts * rows) buffers_.found.resize(parts * rows);
    if (buffers_.best.size() < rows) buffers_.best.resize(rows);
    buffers_.norms.resize(rows);
    floors_ = std::make_unique<std::atomic<float>[]>(rows);
    for (size_t row = 0; row < rows; ++row) floors_[row] = std::numeric_limits<float>::lowest();
  }

  void search_logits(size_t block, size_t row, const float* logits, Best& found) {
    float groups[kMaxWidth];
    const size_t size = logits_.size(block), first = logits_.first(block), at = row * logits_.blocks() + block;
    const float maximum = buffers_.maxima[at] = simd_.find_maxima(logits, size, groups);
    buffers_.sums[at] = simd_.sum_exponentials(logits, size, maximum);
    float floor = std::max(found.threshold(), floors_[row].load(std::memory_order_relaxed));
    if (maximum < floor) return;
    for (size_t group = 0; group < kMaxWidth; ++group) {
      if (groups[group] < floor) continue;
      for (size_t i = group; i < size; i += kMaxWidth) {
        if (logits[i] < floor || is_banned(first + i)) continue;
        found.add({logits[i], first + i});
        floor = std::max(floor, found.threshold());
      }
    }
    floors_[row].store(floor, std::memory_order_relaxed);
  }

  bool is_banned(size_t position) const {
    const int64_t* const end = banned_.data + banned_.elements();
    return std::find(banned_.data, end, static_cast<int64_t>(position)) != end;
  }

  // Turns a hypothesis's best logits into log-probabilities.
  void finish(size_t row, size_t parts) {
    const size_t first = row * logits_.blocks(), end = first + logits_.blocks();
    const float maximum = *std::max_element(buffers_.maxima.begin() + first, buffers_.maxima.begin() + end);
    float sum = 0;
    for (size_t at = first; at < end; ++at) sum += buffers_.sums[at] * std::exp(buffers_.maxima[at] - maximum);
    const float norm = buffers_.norms[row] = maximum + std::log(sum);
    Best& best = buffers_.best[row];
    for (size_t part = 0; part < parts; ++part) {
      for (const Choice& choice : buffers_.found[part * logits_.rows() + row].choices()) {
        best.add({choice.value - norm, choice.index});
      }
    }
    for (size_t i = 0; i < banned_.elements(); ++i) best.add({kBanned, static_cast<size_t>(banned_.data[i])});
  }

  // Callers count on `per_row_` choices, also of no hypothesis, or where logits that are infinite or no numbers were
  // skipped.
  void fill(Best& best) const {
    for (size_t position = 0; best.choices().size() < per_row_; ++position) best.add({kBanned, position});
  }

  int64_t id(size_t sentence, int64_t position) const { return logits_.id(sentence, static_cast<size_t>(position)); }

  // Log-probability of a piece after an inspected hypothesis; all rows are live then.
  float log_probability(size_t row, int64_t piece) const {
    const size_t position = static_cast<size_t>(piece);
    require(position < logits_.vocab_size(), "a required piece does not exist");
    return logits_.at(row, position) - buffers_.norms[row];
  }

  const Simd& simd_;
  Buffers& buffers_;
  StepLogits logits_;
  const Tensor<const float> scores_;
  const Tensor<const int64_t> banned_, inspected_, required_;
  size_t per_row_, count_;
  std::unique_ptr<std::atomic<float>[]> floors_;  // Logits below this are not among the best of a hypothesis.
};

// Continues the hypotheses of a step; the scores are input number `first`.
void continue_best(const Context& context, const PackedColumns& columns, const Shortlist* shortlist, size_t first) {
  thread_local Buffers buffers;
  Step step(context, columns, shortlist, first, buffers);
  step.search(context);
  step.write_continuations(context);
  step.write_inspected(context);
}

constexpr size_t kFirstOfMatrix = 1, kAfterMatrix = kFirstOfMatrix + 5;

}  // namespace

KeptProjection::KeptProjection(const Constants& constants) : columns(kept_columns(constants, kFirstOfMatrix)) {}

void ProjectedContinuations::compute(const Context& context, const Kept& kept) {
  PackedColumns given;
  continue_best(context, kept.columns.or_read(context, kFirstOfMatrix, given), nullptr, kAfterMatrix);
}

void ShortlistedContinuations::compute(const Context& context, const Kept& kept) {
  PackedColumns given;
  const PackedColumns& columns = kept.columns.or_read(context, kFirstOfMatrix, given);
  const Shortlist shortlist(context, kAfterMatrix, columns);
  continue_best(context, columns, &shortlist, kAfterMatrix + Shortlist::kInputs);
}

}  // namespace xuanzang
