// The best of many values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace xuanzang {

struct Choice {
  float value;
  size_t index;
  // Better: greater, or equal and of a lower index.
  bool operator<(const Choice& other) const {
    return value > other.value || (value == other.value && index < other.index);
  }
};

// The best of the choices added so far, best first.
class Best {
 public:
  void start(size_t count) {
    count_ = count;
    choices_.clear();
  }

  // Values below this are not among the best.
  float threshold() const {
    return choices_.size() < count_ ? std::numeric_limits<float>::lowest() : choices_.back().value;
  }

  void add(Choice choice) {
    if (choices_.size() == count_) {
      if (!(choice < choices_.back())) return;
      choices_.pop_back();
    }
    choices_.insert(std::upper_bound(choices_.begin(), choices_.end(), choice), choice);
  }

  const std::vector<Choice>& choices() const { return choices_; }

 private:
  size_t count_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace xuanzang
