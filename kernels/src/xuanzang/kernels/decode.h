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
  // Names of inputs and outputs with a row for each sentence, which sentences that are done are taken out of.
  const char* const* rows;
  int64_t rows_count;
  // Null for a decoder that keeps states and takes each from the parent: `parents` is then an input of it.
  const SlotStep* slots;
  const BeamStep* beams;
  // The steps end at these numbers of steps and seconds, or as soon as `interrupt` is not 0.
  int64_t max_steps;
  double max_seconds;
  const int64_t* interrupt;
  // Limits on steps and seconds after the first step that finishes a sentence, for others that finish soon; more
  // than 0 only with `rows`. The seconds are predicted from the last step.
  int64_t max_steps_after_done;
  double max_seconds_after_done;
  float dead_score;  // of a beam position without hypothesis
  // [batch], changed: further endings that finish a sentence; 0 where their number does not decide.
  int64_t* endings_left;
  // Token and parent of each hypothesis after each step, [batch, max_links, 2, beam], the next at `next_link`.
  int32_t* links;
  int64_t max_links, next_link;
  // Hypotheses that have ended, in order, those of `done` included.
  int64_t max_endings;
  int64_t* endings;       // [max_endings, 3], out: sentence, number of tokens, beam position of the parent
  float* ending_scores;   // [max_endings], out
  int64_t* done;          // [batch, 2], out: sentences that are done, and the numbers of their last steps, from 1
  int64_t* order;         // [batch], out: where the sentence of each row was before; those taken out are the last ones
  int64_t steps;          // out: steps taken
  int64_t endings_count;  // out
  int64_t done_count;     // out
};

// Takes at least one step. In each, hypotheses get their best continuations, and ended ones make room for others.
// Finished sentences are taken out before the next step: another one gets their row, in all arrays with a row for each.
// Results name sentences by their earlier rows.
//
// Returns the number of `beams->inspected`, here rows: sentences whose hypotheses ended or are missing in the last
// step. They are left to the caller, because the number does not decide whether a sentence is done. The last step is
// not in `links`, and the slots have not been advanced after it.
int64_t decode(Decode& decode);

}  // namespace xuanzang
