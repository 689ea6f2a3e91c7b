// Decoder steps one after another, as long as nothing happens that only the server's search may decide.
#pragma once

#include <cstdint>

#include "session.h"
#include "step.h"

namespace xuanzang {

// Arguments of XuanzangDecode. Arrays are contiguous.
struct Decode {
  Binding* decoder;
  // Bound after the first step in place of what only that one has.
  const BoundTensor* later;
  int64_t later_count;
  const SlotStep* slots;
  const BeamStep* beams;
  // The steps end after so many, after so many seconds, or as soon as `interrupt` is not 0.
  int64_t max_steps;
  double max_seconds;
  const int64_t* interrupt;
  float dead_score;       // of a beam position without hypothesis
  int64_t* endings_left;  // [batch], changed: a sentence may be done when so many more hypotheses have ended
  // Token and parent of each hypothesis after each step, [batch, max_links, 2, beam], the next at `next_link`.
  int32_t* links;
  int64_t max_links, next_link;
  // Hypotheses that have ended, in order.
  int64_t max_endings;
  int64_t* endings;       // [max_endings, 3], out: number of the step, from 1, sentence and beam position of the parent
  float* ending_scores;   // [max_endings], out
  int64_t steps;          // out: steps taken
  int64_t endings_count;  // out
};

// Takes at least one step. In each hypotheses get their best continuations, and those that end make room for others.
//
// Returns the number of `beams->inspected`: sentences of which, in the last step, hypotheses have ended or are missing,
// which is not dealt with. -1 if all is done, but there are too few slots or pages for the next step. In either case
// the last step is not in `links` and the slots have not been advanced after it.
int64_t decode(Decode& decode);

}  // namespace xuanzang
