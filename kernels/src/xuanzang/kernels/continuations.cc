#include "continuations.h"

#include <cmath>
#include <limits>
#include <vector>

#include "simd.h"

namespace xuanzang {
namespace {

// Log-probability of what is banned.
constexpr float kNever = -1.0e9f;

struct Choice {
  float value;
  size_t index;
  // Better than: greater, or equal and first.
  bool operator<(const Choice& other) const {
    return value > other.value || (value == other.value && index < other.index);
  }
};

// Keeps the best of the values that it is given, best first.
class Best {
 public:
  void start(size_t count) {
    count_ = count;
    choices_.clear();
  }

  // Values below this are none of the best.
  float least() const {
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

// Room that a thread keeps, so that it need not ask for memory for every row.
struct Room {
  std::vector<float> maxima;
  Best groups, row, all;
  std::vector<int64_t> ids;
};

// Finds the best log-probabilities of a row and their ids: room.row.
//
// The best n of a row lie in the n groups with the greatest maxima, so only these are searched.
void search_row(const float* logits, size_t vocabulary, size_t count, const Tensor<const int64_t>& banned, Room& room) {
  room.maxima.resize((vocabulary + kBlock - 1) / kBlock * kVector);
  const float most = loops().find_maxima(logits, vocabulary, room.maxima.data());
  const float norm = most + std::log(loops().sum_exponentials(logits, vocabulary, most));
  // Banned ids may be among the best.
  room.groups.start(count + banned.elements());
  for (size_t group = 0; group < room.maxima.size(); ++group) {
    if (room.maxima[group] >= room.groups.least()) room.groups.add({room.maxima[group], group});
  }
  const float least = room.groups.least();
  const int64_t* const last = banned.data + banned.elements();
  room.row.start(count);
  for (const Choice& group : room.groups.choices()) {
    const size_t first = group.index / kVector * kBlock + group.index % kVector;
    for (size_t id = first; id < std::min(first / kBlock * kBlock + kBlock, vocabulary); id += kVector) {
      if (logits[id] < least) continue;
      const bool never = std::find(banned.data, last, static_cast<int64_t>(id)) != last;
      room.row.add({never ? kNever : logits[id] - norm, id});
    }
  }
  // Infinite logits, or such as are no numbers, may have been passed over; callers count on `count` choices.
  for (size_t id = 0; room.row.choices().size() < count; ++id) room.row.add({kNever, id});
}

}  // namespace

void BestContinuations::compute(const Context& context) {
  const auto logits = context.input<float>(0), scores = context.input<float>(1);
  const auto wanted = context.input<int64_t>(2), banned = context.input<int64_t>(3);
  require(logits.rank == 3 && scores.rank == 2 && banned.rank == 1, "an input has the wrong dimensions");
  require(wanted.elements() == 1 && wanted.data[0] > 0, "the number of continuations is not a positive number");
  const size_t batch = logits.size(0), beam = logits.size(1), vocabulary = logits.size(2);
  require(beam && vocabulary, "there is nothing to choose from");
  require(scores.size(0) == batch && scores.size(1) == beam, "there is not one score for each hypothesis");
  const size_t per_row = std::min(static_cast<size_t>(wanted.data[0]), vocabulary);
  const size_t count = std::min(static_cast<size_t>(wanted.data[0]), beam * per_row);

  const auto totals = context.output<float>(0, {batch, count});
  const auto ids = context.output<int64_t>(1, {batch, count});
  const auto parents = context.output<int64_t>(2, {batch, count});
  // An exponential is worth ten multiplications.
  context.parallel(batch, batch * beam * vocabulary * 10, [&](size_t sentence) {
    thread_local Room room;
    room.all.start(count);
    room.ids.clear();
    for (size_t i = 0; i < beam; ++i) {
      const size_t row = sentence * beam + i;
      search_row(logits.data + row * vocabulary, vocabulary, per_row, banned, room);
      for (const Choice& choice : room.row.choices()) {
        room.all.add({scores.data[row] + choice.value, room.ids.size()});
        room.ids.push_back(static_cast<int64_t>(choice.index));
      }
    }
    for (size_t place = 0; place < count; ++place) {
      const Choice& choice = room.all.choices()[place];
      totals.data[sentence * count + place] = choice.value;
      ids.data[sentence * count + place] = room.ids[choice.index];
      parents.data[sentence * count + place] = static_cast<int64_t>(choice.index / per_row);
    }
  });
}

}  // namespace xuanzang
