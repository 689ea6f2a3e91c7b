#include "attention.h"

#include <cmath>
#include <vector>

#include "vectors.h"

namespace xuanzang {
namespace {

// Far below any score: what is hidden gets no weight.
constexpr float kHidden = -1.0e9f;
// Hypotheses go through keys and values four at a time: as many sums as the registers of AVX-512 hold. Their weights
// lie side by side, [position, 4], so that one vector holds those of four positions.
constexpr size_t kQueries = 4;

// The keys and values that the hypotheses of a sentence see.
struct Memory {
  const float* keys;
  const float* values;
  size_t head_stride;  // Floats from a head to the next.
  size_t d_head;
  size_t width;              // Positions, filled up to whole vectors of weights.
  std::vector<size_t> rows;  // Where key and value of each position begin, for the first head.
  std::vector<float> bias;   // 0 for what each hypothesis sees, else kHidden: [beam / 4, width, 4].

  // Sees every position of `rows`, until `hide`.
  void show(size_t beam) {
    width = (rows.size() + kLanes / kQueries - 1) / (kLanes / kQueries) * (kLanes / kQueries);
    bias.assign((beam + kQueries - 1) / kQueries * width * kQueries, kHidden);
    for (size_t i = 0; i < beam; ++i) {
      for (size_t position = 0; position < rows.size(); ++position) bias[place(i, position)] = 0.0f;
    }
  }

  void hide(size_t hypothesis, size_t position) { bias[place(hypothesis, position)] = kHidden; }

  // Of the bias or weight of a hypothesis.
  size_t place(size_t hypothesis, size_t position) const {
    return (hypothesis / kQueries * width + position) * kQueries + hypothesis % kQueries;
  }
};

// The queries of a sentence for all heads, [beam, heads, head], `stride` floats from one hypothesis to the next.
struct Queries {
  const float* data;
  size_t stride;
  size_t beam;
  size_t heads;
};

// Adds the scaled products of queries and keys of a head to their weights; asks for its values meanwhile.
template <size_t kCount>
XUANZANG_INLINE void score(const float* queries, size_t stride, const Memory& memory, size_t base, float* weights) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(memory.d_head));
  for (size_t position = 0; position < memory.rows.size(); ++position) {
    const float* const key = memory.keys + base + memory.rows[position];
    const float* const value = memory.values + base + memory.rows[position];
    Lanes sums[kQueries] = {};
    in_lanes(memory.d_head, [&](size_t at, size_t lanes) {
      __builtin_prefetch(value + at);
      Lanes part, query;
      load(part, key + at, lanes);
      for (size_t i = 0; i < kCount; ++i) {
        load(query, queries + i * stride + at, lanes);
        sums[i] += part * query;
      }
    });
    Quad products, some;
    sum_each(products, sums);
    std::memcpy(&some, weights + position * kQueries, sizeof some);
    some += products * scale;
    std::memcpy(weights + position * kQueries, &some, sizeof some);
  }
}

// Over the positions, for each of the four hypotheses.
XUANZANG_INLINE void softmax(float* weights, size_t width) {
  const size_t size = width * kQueries;
  Lanes most = Lanes{} + kHidden, total = {}, lanes;
  for (size_t at = 0; at < size; at += kLanes) {
    load(lanes, weights + at, kLanes);
    raise(most, lanes);
  }
  raise_by_four(most);
  for (size_t at = 0; at < size; at += kLanes) {
    load(lanes, weights + at, kLanes);
    lanes -= most;
    exponentiate(lanes);
    total += lanes;
    store(weights + at, lanes, kLanes);
  }
  sum_by_four(total);
  const Lanes share = 1.0f / total;
  for (size_t at = 0; at < size; at += kLanes) {
    load(lanes, weights + at, kLanes);
    lanes *= share;
    store(weights + at, lanes, kLanes);
  }
}

// The sums of the values of a head by the weights, `stride` floats from one query to the next; asks for the keys of the
// next head meanwhile.
template <size_t kCount>
XUANZANG_INLINE void mix(const float* weights, const Memory& memory, size_t base, float* mixed, size_t stride) {
  const float* const values = memory.values + base;
  const float* const next_keys = memory.keys + base + memory.head_stride;
  in_lanes(memory.d_head, [&](size_t at, size_t lanes) {
    Lanes sums[kCount] = {}, value;
    for (size_t position = 0; position < memory.rows.size(); ++position) {
      __builtin_prefetch(next_keys + memory.rows[position] + at);
      load(value, values + memory.rows[position] + at, lanes);
      for (size_t i = 0; i < kCount; ++i) sums[i] += weights[position * kQueries + i] * value;
    }
    for (size_t i = 0; i < kCount; ++i) store(mixed + i * stride + at, sums[i], lanes);
  });
}

template <size_t kCount>
XUANZANG_INLINE void attend(const Queries& queries, const Memory& memory, size_t first, size_t head, float* weights,
                            float* mixed) {
  const size_t d_model = queries.heads * memory.d_head, at = head * memory.d_head, base = head * memory.head_stride;
  score<kCount>(queries.data + first * queries.stride + at, queries.stride, memory, base, weights);
  softmax(weights, memory.width);
  mix<kCount>(weights, memory, base, mixed + first * d_model + at, d_model);
}

// Attention of all hypotheses of a sentence with one head.
//
// weights: room as the bias has. mixed: [beam, heads, head] of the sentence.
XUANZANG_VECTORIZED void attend_head(const Queries& queries, const Memory& memory, size_t head, float* weights,
                                     float* mixed) {
  std::memcpy(weights, memory.bias.data(), memory.bias.size() * sizeof(float));
  for (size_t first = 0; first < queries.beam; first += kQueries) {
    float* const some = weights + first * memory.width;
    switch (queries.beam - first) {
      case 1: attend<1>(queries, memory, first, head, some, mixed); break;
      case 2: attend<2>(queries, memory, first, head, some, mixed); break;
      case 3: attend<3>(queries, memory, first, head, some, mixed); break;
      default: attend<4>(queries, memory, first, head, some, mixed);
    }
  }
}

// Room that a thread keeps, so that it need not ask for memory for every sentence.
struct Room {
  Memory memory;
  std::vector<size_t> columns;
  std::vector<float> weights;
};

Room& room() {
  thread_local Room mine;
  return mine;
}

// Attention of all hypotheses of a sentence with all heads; `seen` is called after each head, whose weights are in
// room.
template <typename Seen>
void attend_sentence(const Queries& queries, Room& room, float* mixed, const Seen& seen) {
  room.weights.resize(room.memory.bias.size());
  for (size_t head = 0; head < queries.heads; ++head) {
    attend_head(queries, room.memory, head, room.weights.data(), mixed);
    seen();
  }
}

struct PagedInputs {
  explicit PagedInputs(const Context& context)
      : projected(context.input<float>(0)),
        past_keys(context.input<float>(1)),
        past_values(context.input<float>(2)),
        slot_indices(context.input<int64_t>(3)),
        table(context.input<int64_t>(4)),
        visible(context.input<bool>(6)) {
    require(projected.rank == 3 && past_keys.rank == 4 && past_values.rank == 4, "a state has the wrong dimensions");
    require(slot_indices.rank == 4 && table.rank == 2 && visible.rank == 3, "an index has the wrong dimensions");
    batch = projected.size(0), beam = projected.size(1), places = table.size(1);
    pages = past_keys.size(0), heads = past_keys.size(1), slots = past_keys.size(2), d_head = past_keys.size(3);
    require(past_values.shape == past_keys.shape, "keys and values differ in shape");
    require(projected.size(2) == 3 * heads * d_head, "projected is not three times as wide as all heads");
    require(table.size(0) == batch && visible.size(0) == batch && slot_indices.size(0) == batch, "batches differ");
    require(visible.size(1) == beam && slot_indices.size(1) == beam, "beams differ");
    require(visible.size(2) == places * slots, "visible is not as wide as the pages of a sentence");
    require(slot_indices.size(2) == heads && slot_indices.size(3) == 3, "slot_indices does not name slots");
    for (size_t hypothesis = 0; hypothesis < batch * beam; ++hypothesis) {
      require(page(hypothesis) < pages && slot(hypothesis) < slots, "a slot to write to does not exist");
    }
  }

  // Where the key and value of the step are written; the same for all heads.
  size_t page(size_t hypothesis) const { return static_cast<size_t>(slot_indices.data[hypothesis * heads * 3]); }
  size_t slot(size_t hypothesis) const { return static_cast<size_t>(slot_indices.data[hypothesis * heads * 3 + 2]); }

  Tensor<const float> projected, past_keys, past_values;
  Tensor<const int64_t> slot_indices, table;
  Tensor<const bool> visible;
  size_t batch, beam, places, pages, heads, slots, d_head;
};

// Writes keys and values of a hypothesis' new token.
void write(const PagedInputs& in, size_t hypothesis, float* keys, float* values) {
  const size_t d_model = in.heads * in.d_head;
  const float* const states = in.projected.data + hypothesis * 3 * d_model;
  for (size_t head = 0; head < in.heads; ++head) {
    const size_t row = (in.page(hypothesis) * in.heads + head) * in.slots + in.slot(hypothesis);
    std::copy_n(states + d_model + head * in.d_head, in.d_head, keys + row * in.d_head);
    std::copy_n(states + 2 * d_model + head * in.d_head, in.d_head, values + row * in.d_head);
  }
}

// Finds the slots that any hypothesis of a sentence sees, in the order of its places.
void find_slots(const PagedInputs& in, size_t sentence, Room& room) {
  const size_t width = in.places * in.slots;
  const bool* const visible = in.visible.data + sentence * in.beam * width;
  room.columns.clear();
  room.memory.rows.clear();
  for (size_t place = 0; place < in.places; ++place) {
    const auto page = static_cast<size_t>(in.table.data[sentence * in.places + place]);
    for (size_t slot = 0; slot < in.slots && page < in.pages; ++slot) {
      bool seen = false;
      for (size_t i = 0; i < in.beam; ++i) seen |= visible[i * width + place * in.slots + slot];
      if (!seen) continue;
      room.columns.push_back(place * in.slots + slot);
      room.memory.rows.push_back((page * in.heads * in.slots + slot) * in.d_head);
    }
  }
  room.memory.show(in.beam);
  for (size_t i = 0; i < in.beam; ++i) {
    for (size_t position = 0; position < room.columns.size(); ++position) {
      if (!visible[i * width + room.columns[position]]) room.memory.hide(i, position);
    }
  }
}

}  // namespace

void PagedAttention::compute(const Context& context) {
  const PagedInputs in(context);
  const size_t d_model = in.heads * in.d_head;
  const auto mixed = context.output<float>(0, {in.batch, in.beam, d_model});
  const auto keys = context.output<float>(1, {in.pages, in.heads, in.slots, in.d_head});
  const auto values = context.output<float>(2, {in.pages, in.heads, in.slots, in.d_head});
  if (keys.data != in.past_keys.data) std::copy_n(in.past_keys.data, in.past_keys.elements(), keys.data);
  if (values.data != in.past_values.data) std::copy_n(in.past_values.data, in.past_values.elements(), values.data);
  context.parallel(in.batch, in.batch * in.beam * d_model * in.places * in.slots, [&](size_t sentence) {
    const size_t first = sentence * in.beam;
    for (size_t i = 0; i < in.beam; ++i) write(in, first + i, keys.data, values.data);
    Memory& memory = room().memory;
    memory.keys = keys.data, memory.values = values.data;
    memory.head_stride = in.slots * in.d_head, memory.d_head = in.d_head;
    find_slots(in, sentence, room());
    const Queries queries{in.projected.data + first * 3 * d_model, 3 * d_model, in.beam, in.heads};
    attend_sentence(queries, room(), mixed.data + first * d_model, [] {});
  });
}

void CrossAttention::compute(const Context& context) {
  const auto queries = context.input<float>(0), keys = context.input<float>(1), values = context.input<float>(2);
  const auto mask = context.input<bool>(3);
  require(queries.rank == 3 && keys.rank == 4 && mask.rank == 2, "an input has the wrong dimensions");
  const size_t batch = queries.size(0), beam = queries.size(1), d_model = queries.size(2);
  const size_t heads = keys.size(1), source = keys.size(2), d_head = keys.size(3);
  require(values.rank == 4 && values.shape == keys.shape, "keys and values differ in shape");
  require(keys.size(0) == batch && mask.size(0) == batch, "batches differ");
  require(d_model == heads * d_head && mask.size(1) == source, "queries or mask do not fit the keys");

  const auto mixed = context.output<float>(0, {batch, beam, d_model});
  const auto attention = context.output<float>(1, {batch, beam, source});
  context.parallel(batch, batch * beam * d_model * source, [&](size_t sentence) {
    const bool* const shown = mask.data + sentence * source;
    const size_t first = sentence * heads * source * d_head;
    Memory& memory = room().memory;
    memory.keys = keys.data + first, memory.values = values.data + first;
    memory.head_stride = source * d_head, memory.d_head = d_head;
    memory.rows.clear();
    for (size_t position = 0; position < source; ++position) {
      if (shown[position]) memory.rows.push_back(position * d_head);
    }
    memory.show(beam);

    float* const given = attention.data ? attention.data + sentence * beam * source : nullptr;
    if (given) std::fill_n(given, beam * source, 0.0f);
    const Queries asked{queries.data + sentence * beam * d_model, d_model, beam, heads};
    attend_sentence(asked, room(), mixed.data + sentence * beam * d_model, [&] {
      for (size_t i = 0; given && i < beam; ++i) {
        for (size_t p = 0; p < memory.rows.size(); ++p) {
          given[i * source + memory.rows[p] / d_head] += room().weights[memory.place(i, p)] / static_cast<float>(heads);
        }
      }
    });
  });
}

}  // namespace xuanzang
