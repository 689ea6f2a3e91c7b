#include "decode.h"

#include <algorithm>
#include <chrono>

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

// Of sentences that are done, `endings_left` is this.
constexpr int64_t kDone = -1;

bool has_survivor(const BeamStep& step, const Continuations& found) {
  return std::any_of(found.ids, found.ids + found.count, [&](int64_t id) { return id != step.eos_id; });
}

void keep_endings(Decode& decode, int64_t sentence, const Continuations& found) {
  const BeamStep& step = *decode.beams;
  for (int64_t rank = 0; rank < std::min(step.beam, found.count); ++rank) {
    if (found.ids[rank] != step.eos_id) continue;
    int64_t* const ending = decode.endings + 3 * decode.endings_count;
    ending[0] = decode.steps;
    ending[1] = sentence;
    ending[2] = found.parents[rank];
    decode.ending_scores[decode.endings_count++] = found.scores[rank];
    --decode.endings_left[sentence];
  }
}

void survive(const Decode& decode, int64_t sentence, const Continuations& found) {
  const BeamStep& step = *decode.beams;
  int64_t to = sentence * step.beam;
  const int64_t end = to + step.beam;
  for (int64_t rank = 0; rank < found.count && to < end; ++rank) {
    if (found.ids[rank] == step.eos_id) continue;
    step.scores[to] = found.scores[rank];
    step.token_ids[to] = found.ids[rank];
    step.parents[to++] = found.parents[rank];
  }
  for (; to < end; ++to) {
    step.scores[to] = decode.dead_score;
    step.token_ids[to] = step.eos_id;
    step.parents[to] = 0;
  }
}

// Takes a sentence out of the steps: its hypotheses die, and see nothing.
void finish(Decode& decode, int64_t sentence) {
  const BeamStep& step = *decode.beams;
  decode.endings_left[sentence] = kDone;
  decode.done[decode.done_count++] = sentence;
  std::fill_n(step.scores + sentence * step.beam, step.beam, decode.dead_score);
  std::fill_n(step.token_ids + sentence * step.beam, step.beam, step.eos_id);
}

// Deals with a sentence of which a hypothesis has ended or is missing.
void settle(Decode& decode, int64_t sentence) {
  const Continuations found(*decode.beams, sentence);
  const bool is_done =
      count_endings(*decode.beams, found) >= decode.endings_left[sentence] || !has_survivor(*decode.beams, found);
  keep_endings(decode, sentence, found);
  if (is_done) {
    finish(decode, sentence);
  } else {
    survive(decode, sentence, found);
  }
}

// Deals with all sentences of which a hypothesis has ended or is missing, or with none; returns how many are left.
int64_t settle_all(Decode& decode, int64_t inspected) {
  const BeamStep& step = *decode.beams;
  int64_t* const begin = step.inspected;
  int64_t* const end = std::remove_if(begin, begin + inspected,
                                      [&](int64_t sentence) { return decode.endings_left[sentence] == kDone; });
  const bool has_room = decode.endings_count + (end - begin) * step.beam <= decode.max_endings;
  if (!has_room || std::any_of(begin, end, [&](int64_t sentence) { return !decode.endings_left[sentence]; })) {
    return end - begin;
  }
  std::for_each(begin, end, [&](int64_t sentence) { settle(decode, sentence); });
  return 0;
}

// Lets sentences that are done need no page: their hypotheses see nothing, so that the lowest slots are free.
void blind(const Decode& decode) {
  const SlotStep& step = *decode.slots;
  for (int64_t index = 0; index < decode.done_count; ++index) {
    std::fill_n(step.visible + decode.done[index] * step.beam * step.slots, step.beam * step.slots, 0);
  }
}

void add_links(const Decode& decode) {
  const BeamStep& step = *decode.beams;
  const int64_t link = decode.next_link + decode.steps - 1;
  for (int64_t sentence = 0; sentence < step.batch; ++sentence) {
    int32_t* const links = decode.links + (sentence * decode.max_links + link) * 2 * step.beam;
    std::copy_n(step.token_ids + sentence * step.beam, step.beam, links);
    std::copy_n(step.parents + sentence * step.beam, step.beam, links + step.beam);
  }
}

void bind_later(const Decode& decode) {
  for (int64_t index = 0; index < decode.later_count; ++index) decode.decoder->bind(decode.later[index]);
}

}  // namespace

int64_t decode(Decode& decode) {
  const auto end = Clock::now() + std::chrono::duration<double>(decode.max_seconds);
  int64_t max_steps = decode.max_steps;
  decode.steps = decode.endings_count = decode.done_count = 0;
  while (true) {
    decode.decoder->run();
    if (!decode.steps) bind_later(decode);
    ++decode.steps;
    const bool was_done = decode.done_count;
    const int64_t left = settle_all(decode, continue_best(*decode.beams));
    if (left) return left;
    if (!was_done && decode.done_count) max_steps = std::min(max_steps, decode.steps + decode.steps_after_done);
    if (decode.steps >= max_steps || Clock::now() >= end || __atomic_load_n(decode.interrupt, __ATOMIC_ACQUIRE))
      return 0;
    blind(decode);
    if (advance_slots(*decode.slots, Pages::kMustSuffice)) return 0;
    add_links(decode);
  }
}

}  // namespace xuanzang
