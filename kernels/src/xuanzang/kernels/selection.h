// The choice of a sentence's continuations among those of its hypotheses.
#pragma once

#include <cstdint>
#include <vector>

#include "best.h"

namespace xuanzang {

// Log-probability of banned ids.
constexpr float kBanned = -1.0e9f;
// Scores below are of beam positions without hypothesis.
constexpr float kDead = kBanned / 2;

class Selection {
 public:
  void start(size_t count) {
    best_.start(count);
    candidates_.clear();
    parents_ = 0;
  }

  // Adds the continuations of the next hypothesis: their log-probabilities and ids.
  void add(float score, const std::vector<Choice>& continuations) {
    for (const Choice& choice : continuations) {
      best_.add({score + choice.value, candidates_.size()});
      candidates_.push_back({static_cast<int64_t>(choice.index), parents_});
    }
    ++parents_;
  }

  // Writes summed log-probabilities, ids and hypotheses, best first.
  void write(float* totals, int64_t* ids, int64_t* parents) const {
    for (const Choice& choice : best_.choices()) {
      *totals++ = choice.value;
      *ids++ = candidates_[choice.index].id;
      *parents++ = candidates_[choice.index].parent;
    }
  }

 private:
  struct Candidate {
    int64_t id, parent;
  };

  Best best_;
  std::vector<Candidate> candidates_;
  int64_t parents_ = 0;
};

}  // namespace xuanzang
