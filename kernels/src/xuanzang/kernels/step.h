// The bookkeeping between two decoder steps. What each function does is defined by numpy code of the server, which runs
// where there is no library; they compute nothing but integers and copies, so no instruction set matters.
#pragma once

#include <cstdint>

namespace xuanzang {

// Arguments of XuanzangAdvanceSlots. Arrays are contiguous.
struct SlotStep {
  int64_t batch, beam, slots, heads, page_slots, logical_pages;
  const int64_t* parents;  // [batch, beam]
  uint8_t* visible;        // [batch, beam, slot], changed
  int64_t* page_table;     // [batch, logical page], changed: -1 where there is no page
  int64_t* page_owners;    // [page, 2], changed: sentence and logical page
  int64_t* free_pages;     // [page], changed: the next to be taken last
  int64_t* free_count;     // [1], changed: number of free pages
  int64_t* slot_indices;   // [batch, beam, heads, 3], changed: page, head and slot in the page
  int64_t* chosen;         // [batch, beam], out: the slots
};

// Arguments of XuanzangContinueBest. Arrays are contiguous.
struct BeamStep {
  int64_t batch, beam, candidates, eos_id;
  float dead;                        // scores below are of beam positions without hypothesis
  const float* candidate_scores;     // [batch, candidate]
  const int64_t* candidate_ids;      // [batch, candidate]
  const int64_t* candidate_parents;  // [batch, candidate]
  int64_t* token_ids;                // [batch, beam], out
  float* scores;                     // [batch, beam], out
  int64_t* positions;                // [batch], changed
  int64_t* parents;                  // [batch, beam], out
  int64_t* inspected;                // [batch], out: sentences with an ended or missing hypothesis, in order
};

// Handling of slots without a page when no page is free.
enum class Pages { kMayLack, kMustSuffice };

// Lets every hypothesis see what its parent saw, and the lowest slot that no hypothesis of the sentence sees, for its
// next token; takes free pages for slots that have none. Returns the number of slots whose page is missing, or -1, with
// nothing changed, if a sentence has too few slots, a parent does not exist, or free pages must suffice and do not.
int64_t advance_slots(const SlotStep& step, Pages pages);

// Frees the pages of a sentence that is done.
void release_pages(const SlotStep& step, int64_t sentence);

// Lets every sentence go on with its best candidates. Returns the number of `inspected`.
int64_t continue_best(const BeamStep& step);

}  // namespace xuanzang
