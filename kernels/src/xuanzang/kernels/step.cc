#include "step.h"

#include <algorithm>
#include <vector>

namespace xuanzang {
namespace {

// Writes the lowest slots that no hypothesis inherits, one for each; false if they are too few or a parent is wrong.
bool choose_slots(const SlotStep& step, int64_t sentence, uint8_t* taken) {
  const int64_t* const parents = step.parents + sentence * step.beam;
  const uint8_t* const visible = step.visible + sentence * step.beam * step.slots;
  std::fill(taken, taken + step.slots, 0);
  for (int64_t position = 0; position < step.beam; ++position) {
    if (parents[position] < 0 || parents[position] >= step.beam) return false;
    const uint8_t* const inherited = visible + parents[position] * step.slots;
    for (int64_t slot = 0; slot < step.slots; ++slot) taken[slot] |= inherited[slot];
  }
  int64_t found = 0;
  for (int64_t slot = 0; slot < step.slots && found < step.beam; ++slot) {
    if (!taken[slot]) step.chosen[sentence * step.beam + found++] = slot;
  }
  return found == step.beam;
}

void inherit(const SlotStep& step, int64_t sentence, uint8_t* before) {
  uint8_t* const visible = step.visible + sentence * step.beam * step.slots;
  std::copy(visible, visible + step.beam * step.slots, before);
  for (int64_t position = 0; position < step.beam; ++position) {
    const int64_t row = sentence * step.beam + position;
    uint8_t* const seen = visible + position * step.slots;
    const uint8_t* const inherited = before + step.parents[row] * step.slots;
    std::copy(inherited, inherited + step.slots, seen);
    seen[step.chosen[row]] = 1;
  }
}

// Returns how many pages the slots of a sentence lack.
int64_t count_missing(const SlotStep& step, int64_t sentence) {
  const int64_t* const pages = step.page_table + sentence * step.logical_pages;
  int64_t missing = 0, last = -1;
  // Slots are in order, and so are their logical pages.
  for (int64_t row = sentence * step.beam; row < (sentence + 1) * step.beam; ++row) {
    const int64_t logical = step.chosen[row] / step.page_slots;
    missing += logical != last && pages[logical] < 0;
    last = logical;
  }
  return missing;
}

void take_page(const SlotStep& step, int64_t sentence, int64_t logical) {
  int64_t& page = step.page_table[sentence * step.logical_pages + logical];
  if (page >= 0 || !*step.free_count) return;
  page = step.free_pages[--*step.free_count];
  step.page_owners[2 * page] = sentence;
  step.page_owners[2 * page + 1] = logical;
}

// Returns the number of slots without page.
int64_t point_to_slots(const SlotStep& step, int64_t sentence) {
  int64_t missing = 0;
  for (int64_t row = sentence * step.beam; row < (sentence + 1) * step.beam; ++row) {
    const int64_t slot = step.chosen[row], logical = slot / step.page_slots;
    take_page(step, sentence, logical);
    const int64_t page = step.page_table[sentence * step.logical_pages + logical];
    missing += page < 0;
    for (int64_t head = 0; head < step.heads; ++head) {
      int64_t* const index = step.slot_indices + (row * step.heads + head) * 3;
      index[0] = page;
      index[2] = slot % step.page_slots;
    }
  }
  return missing;
}

}  // namespace

int64_t advance_slots(const SlotStep& step, Pages pages) {
  thread_local std::vector<uint8_t> scratch;
  scratch.resize(step.beam * step.slots);
  int64_t wanted = 0;
  for (int64_t sentence = 0; sentence < step.batch; ++sentence) {
    if (!choose_slots(step, sentence, scratch.data())) return -1;
    wanted += count_missing(step, sentence);
  }
  if (pages == Pages::kMustSuffice && wanted > *step.free_count) return -1;
  int64_t missing = 0;
  for (int64_t sentence = 0; sentence < step.batch; ++sentence) {
    inherit(step, sentence, scratch.data());
    missing += point_to_slots(step, sentence);
  }
  return missing;
}

void release_pages(const SlotStep& step, int64_t sentence) {
  for (int64_t logical = 0; logical < step.logical_pages; ++logical) {
    int64_t& page = step.page_table[sentence * step.logical_pages + logical];
    if (page < 0) continue;
    step.page_owners[2 * page] = step.page_owners[2 * page + 1] = 0;
    step.free_pages[(*step.free_count)++] = page;
    page = -1;
  }
}

int64_t continue_best(const BeamStep& step) {
  int64_t inspected = 0;
  for (int64_t sentence = 0; sentence < step.batch; ++sentence) {
    const int64_t from = sentence * step.candidates, to = sentence * step.beam;
    std::copy_n(step.candidate_scores + from, step.beam, step.scores + to);
    std::copy_n(step.candidate_ids + from, step.beam, step.token_ids + to);
    std::copy_n(step.candidate_parents + from, step.beam, step.parents + to);
    ++step.positions[sentence];
    const int64_t* const ids = step.token_ids + to;
    const bool ends = std::find(ids, ids + step.beam, step.eos_id) != ids + step.beam;
    if (ends || step.scores[to + step.beam - 1] < step.dead) step.inspected[inspected++] = sentence;
  }
  return inspected;
}

}  // namespace xuanzang
