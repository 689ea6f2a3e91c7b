#include "continuations.h"

#include <cmath>
#include <vector>

#include "vectors.h"

namespace xuanzang {
namespace {

// Logits whose greatest is looked at before any of them is.
constexpr size_t kGroup = 4 * kLanes;
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

void keep_best(std::vector<Choice>& choices, size_t count) {
  count = std::min(count, choices.size());
  std::partial_sort(choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(count), choices.end());
  choices.resize(count);
}

// Finds the greatest logit of each group, and returns the greatest of all.
XUANZANG_VECTORIZED float find_maxima(const float* logits, size_t vocabulary, float* maxima) {
  float most = logits[0];
  for (size_t first = 0; first < vocabulary; first += kGroup) {
    const size_t count = std::min(kGroup, vocabulary - first);
    Lanes top = Lanes{} + logits[first];
    if (count == kGroup) {
      Lanes lanes;
      for (size_t at = 0; at < kGroup; at += kLanes) {
        load(lanes, logits + first + at, kLanes);
        raise(top, lanes);
      }
    } else {
      for (size_t at = 0; at < count; ++at) top[0] = std::max(top[0], logits[first + at]);
    }
    const float greatest_here = greatest(top);
    maxima[first / kGroup] = greatest_here;
    most = std::max(most, greatest_here);
  }
  return most;
}

// Returns the sum of the exponentials of the logits minus the greatest.
XUANZANG_VECTORIZED float sum_exponentials(const float* logits, size_t vocabulary, float most) {
  Lanes total = {};
  in_lanes(vocabulary, [&](size_t at, size_t count) {
    Lanes lanes = Lanes{} + 2 * kNever;
    if (count == kLanes) {
      load(lanes, logits + at, kLanes);
    } else {
      for (size_t lane = 0; lane < count; ++lane) lanes[lane] = logits[at + lane];
    }
    lanes -= most;
    exponentiate(lanes);
    total += lanes;
  });
  return sum(total);
}

// Room that a thread keeps, so that it need not ask for memory for every row.
struct Room {
  std::vector<float> maxima;
  std::vector<Choice> groups, row, all;
  std::vector<int64_t> ids;
};

// Finds the best log-probabilities of a row and their ids: room.row.
//
// The best n of a row lie in the n groups with the greatest maxima, so only these are searched.
void search_row(const float* logits, size_t vocabulary, size_t count, const Tensor<const int64_t>& banned, Room& room) {
  room.maxima.resize((vocabulary + kGroup - 1) / kGroup);
  const float most = find_maxima(logits, vocabulary, room.maxima.data());
  const float norm = most + std::log(sum_exponentials(logits, vocabulary, most));
  room.groups.clear();
  for (size_t group = 0; group < room.maxima.size(); ++group) room.groups.push_back({room.maxima[group], group});
  const size_t searched = count + banned.elements();
  keep_best(room.groups, searched);
  // As many logits as are looked for reach the last maximum, if there are as many groups.
  const float least = room.groups.size() < searched ? std::numeric_limits<float>::lowest() : room.groups.back().value;
  room.row.clear();
  const int64_t* const last = banned.data + banned.elements();
  for (const Choice& group : room.groups) {
    const size_t first = group.index * kGroup;
    for (size_t id = first; id < std::min(first + kGroup, vocabulary); ++id) {
      if (logits[id] < least) continue;
      const bool never = std::find(banned.data, last, static_cast<int64_t>(id)) != last;
      room.row.push_back({never ? kNever : logits[id] - norm, id});
    }
  }
  keep_best(room.row, count);
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
    room.all.clear();
    room.ids.clear();
    for (size_t i = 0; i < beam; ++i) {
      const size_t row = sentence * beam + i;
      search_row(logits.data + row * vocabulary, vocabulary, per_row, banned, room);
      for (const Choice& choice : room.row) {
        room.all.push_back({scores.data[row] + choice.value, room.ids.size()});
        room.ids.push_back(static_cast<int64_t>(choice.index));
      }
    }
    keep_best(room.all, count);
    for (size_t place = 0; place < count; ++place) {
      const Choice& choice = room.all[place];
      totals.data[sentence * count + place] = choice.value;
      ids.data[sentence * count + place] = room.ids[choice.index];
      parents.data[sentence * count + place] = static_cast<int64_t>(choice.index / per_row);
    }
  });
}

}  // namespace xuanzang
