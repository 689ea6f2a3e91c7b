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

// Whether a sentence goes on, although hypotheses have ended or are missing.
bool goes_on(const Decode& decode, int64_t sentence) {
  const BeamStep& step = *decode.beams;
  const Continuations found(step, sentence);
  const bool has_survivor =
      std::any_of(found.ids, found.ids + found.count, [&](int64_t id) { return id != step.eos_id; });
  return has_survivor && count_endings(step, found) < decode.endings_left[sentence];
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

// Lets sentences of which a hypothesis has ended or is missing go on; returns false, with nothing done, if one may not.
bool settle(Decode& decode, int64_t inspected) {
  const BeamStep& step = *decode.beams;
  const int64_t* const begin = step.inspected;
  const int64_t* const end = begin + inspected;
  if (decode.endings_count + inspected * step.beam > decode.max_endings) return false;
  if (!std::all_of(begin, end, [&](int64_t sentence) { return goes_on(decode, sentence); })) return false;
  for (const int64_t* sentence = begin; sentence != end; ++sentence) {
    const Continuations found(step, *sentence);
    keep_endings(decode, *sentence, found);
    survive(decode, *sentence, found);
  }
  return true;
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
  decode.steps = decode.endings_count = 0;
  while (true) {
    decode.decoder->run();
    if (!decode.steps) bind_later(decode);
    const int64_t inspected = continue_best(*decode.beams);
    ++decode.steps;
    const bool is_last = decode.steps == decode.max_steps || Clock::now() >= end;
    if (is_last || __atomic_load_n(decode.interrupt, __ATOMIC_ACQUIRE)) return inspected;
    if (inspected && !settle(decode, inspected)) return inspected;
    if (advance_slots(*decode.slots, Pages::kMustSuffice)) return -1;
    add_links(decode);
  }
}

}  // namespace xuanzang
