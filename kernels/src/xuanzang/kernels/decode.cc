#include "decode.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace xuanzang {
namespace {

using Clock = std::chrono::steady_clock;

// The continuations of a sentence that exist, best first.
struct Continuations {
  Continuations(const BeamStep& step, int64_t sentence)
      : scores(step.candidate_scores + sentence * step.candidates),
        ids(step.candidate_ids + sentence * step.candidates),
        parents(step.candidate_parents + sentence * step.candidates),
        count(std::find_if(scores, scores + step.candidates, [&](float score) { return !(score > step.dead); }) -
              scores) {}

  const float* scores;
  const int64_t* ids;
  const int64_t* parents;
  int64_t count;
};

int64_t count_endings(const BeamStep& step, const Continuations& found) {
  return std::count(found.ids, found.ids + std::min(step.beam, found.count), step.eos_id);
}

bool has_survivor(const BeamStep& step, const Continuations& found) {
  return std::any_of(found.ids, found.ids + found.count, [&](int64_t id) { return id != step.eos_id; });
}

void swap_rows(void* data, int64_t bytes, int64_t one, int64_t other) {
  char* const rows = static_cast<char*>(data);
  std::swap_ranges(rows + one * bytes, rows + (one + 1) * bytes, rows + other * bytes);
}

// The sentences that steps are taken with: those of the first rows.
class Running {
 public:
  explicit Running(Decode& decode)
      : decode_(decode), slots_(decode.slots ? *decode.slots : SlotStep{}), beams_(*decode.beams) {
    std::iota(decode.order, decode.order + beams_.batch, 0);
    decode.steps = decode.endings_count = decode.done_count = 0;
  }

  // Binds all rows again.
  void end() {
    if (!taken_out_) return;
    beams_.batch = decode_.beams->batch;
    bind_rows();
  }

  // Runs the decoder; returns the number of rows that are inspected and not dealt with.
  int64_t step() {
    decode_.decoder->run();
    if (!decode_.steps) bind(decode_.later, decode_.later_count);
    ++decode_.steps;
    return settle(continue_best(beams_));
  }

  // Makes the next step possible; returns false if it is not, because pages are lacking or no sentence is left.
  bool prepare() {
    if (decode_.done_count > taken_out_) take_out();
    if (!beams_.batch || (has_slots() && advance_slots(slots_, Pages::kMustSuffice))) return false;
    add_links();
    return true;
  }

 private:
  bool has_slots() const { return decode_.slots; }

  // Handles all rows with an ended or missing hypothesis, or none; returns the number left.
  int64_t settle(int64_t inspected) {
    const int64_t* const begin = beams_.inspected;
    const int64_t* const end = begin + inspected;
    const bool has_room = decode_.endings_count + inspected * beams_.beam <= decode_.max_endings;
    if (!has_room || std::any_of(begin, end, [&](int64_t row) { return !decode_.endings_left[row]; })) return inspected;
    std::for_each(begin, end, [&](int64_t row) { settle_row(row); });
    return 0;
  }

  void settle_row(int64_t row) {
    const Continuations found(beams_, row);
    const bool is_done = count_endings(beams_, found) >= decode_.endings_left[row] || !has_survivor(beams_, found);
    keep_endings(row, found);
    if (is_done) {
      int64_t* const done = decode_.done + 2 * decode_.done_count++;
      done[0] = decode_.order[row], done[1] = decode_.steps;
      done_rows_.push_back(row);
    } else {
      survive(row, found);
    }
  }

  void keep_endings(int64_t row, const Continuations& found) {
    for (int64_t rank = 0; rank < std::min(beams_.beam, found.count); ++rank) {
      if (found.ids[rank] != beams_.eos_id) continue;
      int64_t* const ending = decode_.endings + 3 * decode_.endings_count;
      ending[0] = decode_.order[row], ending[1] = beams_.positions[row], ending[2] = found.parents[rank];
      decode_.ending_scores[decode_.endings_count++] = found.scores[rank];
      --decode_.endings_left[row];
    }
  }

  void survive(int64_t row, const Continuations& found) {
    int64_t to = row * beams_.beam;
    const int64_t end = to + beams_.beam;
    for (int64_t rank = 0; rank < found.count && to < end; ++rank) {
      if (found.ids[rank] == beams_.eos_id) continue;
      beams_.scores[to] = found.scores[rank];
      beams_.token_ids[to] = found.ids[rank];
      beams_.parents[to++] = found.parents[rank];
    }
    for (; to < end; ++to) {
      beams_.scores[to] = decode_.dead_score;
      beams_.token_ids[to] = beams_.eos_id;
      beams_.parents[to] = 0;
    }
  }

  // Takes out the sentences that were done in the last step, the last rows first, so that those behind them go on.
  void take_out() {
    for (auto row = done_rows_.rbegin(); row != done_rows_.rend(); ++row) {
      if (has_slots()) release_pages(slots_, *row);
      const int64_t last = --beams_.batch;
      if (*row != last) swap(*row, last);
    }
    slots_.batch = beams_.batch;
    taken_out_ = decode_.done_count;
    done_rows_.clear();
    bind_rows();
  }

  void bind_rows() {
    for (int64_t index = 0; index < decode_.rows_count; ++index) {
      decode_.decoder->bind_rows(decode_.rows[index], beams_.batch);
    }
  }

  void swap(int64_t one, int64_t other) {
    for (int64_t index = 0; index < decode_.rows_count; ++index) {
      const BoundTensor& rows = decode_.decoder->bound(decode_.rows[index]);
      if (!rows.is_output) swap_rows(rows.data, rows.bytes / rows.shape[0], one, other);
    }
    // Without slots they are an input of the decoder, and among its rows.
    if (has_slots()) swap_rows(beams_.parents, beams_.beam * sizeof *beams_.parents, one, other);
    swap_rows(decode_.links, decode_.max_links * 2 * beams_.beam * sizeof *decode_.links, one, other);
    std::swap(decode_.endings_left[one], decode_.endings_left[other]);
    std::swap(decode_.order[one], decode_.order[other]);
  }

  void bind(const BoundTensor* tensors, int64_t count) {
    for (int64_t index = 0; index < count; ++index) decode_.decoder->bind(tensors[index]);
  }

  void add_links() {
    const int64_t link = decode_.next_link + decode_.steps - 1, beam = beams_.beam;
    for (int64_t row = 0; row < beams_.batch; ++row) {
      int32_t* const links = decode_.links + (row * decode_.max_links + link) * 2 * beam;
      std::copy_n(beams_.token_ids + row * beam, beam, links);
      std::copy_n(beams_.parents + row * beam, beam, links + beam);
    }
  }

  Decode& decode_;
  SlotStep slots_;
  BeamStep beams_;
  std::vector<int64_t> done_rows_;  // In the last step, in order.
  int64_t taken_out_ = 0;
};

int64_t take_steps(Decode& decode, Running& running) {
  using Seconds = std::chrono::duration<double>;
  int64_t max_steps = decode.max_steps;
  auto now = Clock::now();
  const auto end = now + Seconds(decode.max_seconds);
  auto end_after_done = end;
  while (true) {
    const auto began = now;
    const bool was_done = decode.done_count;
    if (const int64_t left = running.step()) return left;
    now = Clock::now();
    if (!was_done && decode.done_count) {
      max_steps = std::min(max_steps, decode.steps + decode.max_steps_after_done);
      end_after_done = now + Seconds(decode.max_seconds_after_done);
    }
    // Finished rows do not wait for a step that takes too long.
    if (decode.done_count && now + (now - began) > end_after_done) return 0;
    if (decode.steps >= max_steps || now >= end) return 0;
    if (__atomic_load_n(decode.interrupt, __ATOMIC_ACQUIRE) || !running.prepare()) return 0;
  }
}

}  // namespace

int64_t decode(Decode& decode) {
  Running running(decode);
  const int64_t left = take_steps(decode, running);
  running.end();
  return left;
}

}  // namespace xuanzang
