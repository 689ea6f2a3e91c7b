#include "attention.h"

#include <vector>

#include "loops.h"

namespace xuanzang {
namespace {

// What the hypotheses of a sentence see.
class Sight {
 public:
  std::vector<size_t> rows;  // Where key and value of each position begin, for the first head.

  // Shows every position of `rows`, until `hide`.
  void show(size_t beam) {
    constexpr size_t kPositions = kVector / kQueries;
    width_ = (rows.size() + kPositions - 1) / kPositions * kPositions;
    bias_.assign((beam + kQueries - 1) / kQueries * width_ * kQueries, kHidden);
    for (size_t i = 0; i < beam; ++i) {
      for (size_t position = 0; position < rows.size(); ++position) bias_[place(i, position)] = 0.0f;
    }
  }

  void hide(size_t hypothesis, size_t position) { bias_[place(hypothesis, position)] = kHidden; }

  // Of the bias or weight of a hypothesis.
  size_t place(size_t hypothesis, size_t position) const {
    return (hypothesis / kQueries * width_ + position) * kQueries + hypothesis % kQueries;
  }

  size_t weights() const { return bias_.size(); }

  Memory of(const float* keys, const float* values, size_t head_stride, size_t d_head) const {
    return {keys, values, head_stride, d_head, rows.data(), rows.size(), bias_.data(), width_};
  }

 private:
  size_t width_ = 0;
  std::vector<float> bias_;
};

// Room that a thread keeps, so that it need not ask for memory for every sentence.
struct Room {
  Sight sight;
  std::vector<size_t> columns;  // Where each position of `sight` stands among those of the sentence.
  std::vector<float> weights;
};

Room& room() {
  thread_local Room mine;
  return mine;
}

// Attention of all hypotheses of a sentence with all heads; `seen` is called after each head, whose weights are in
// room.
template <typename Seen>
void attend_sentence(const Queries& queries, const Memory& memory, Room& room, float* mixed, const Seen& seen) {
  room.weights.resize(room.sight.weights());
  for (size_t head = 0; head < queries.heads; ++head) {
    loops().attend(queries, memory, head, room.weights.data(), mixed);
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
  room.sight.rows.clear();
  for (size_t place = 0; place < in.places; ++place) {
    const auto page = static_cast<size_t>(in.table.data[sentence * in.places + place]);
    for (size_t slot = 0; slot < in.slots && page < in.pages; ++slot) {
      bool seen = false;
      for (size_t i = 0; i < in.beam; ++i) seen |= visible[i * width + place * in.slots + slot];
      if (!seen) continue;
      room.columns.push_back(place * in.slots + slot);
      room.sight.rows.push_back((page * in.heads * in.slots + slot) * in.d_head);
    }
  }
  room.sight.show(in.beam);
  for (size_t i = 0; i < in.beam; ++i) {
    for (size_t position = 0; position < room.columns.size(); ++position) {
      if (!visible[i * width + room.columns[position]]) room.sight.hide(i, position);
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
    find_slots(in, sentence, room());
    const Memory memory = room().sight.of(keys.data, values.data, in.slots * in.d_head, in.d_head);
    const Queries queries{in.projected.data + first * 3 * d_model, 3 * d_model, in.beam, in.heads};
    attend_sentence(queries, memory, room(), mixed.data + first * d_model, [] {});
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
    Sight& sight = room().sight;
    std::vector<size_t>& columns = room().columns;
    sight.rows.clear();
    columns.clear();
    for (size_t column = 0; column < source; ++column) {
      if (!shown[column]) continue;
      columns.push_back(column);
      sight.rows.push_back(column * d_head);
    }
    sight.show(beam);
    const Memory memory = sight.of(keys.data + first, values.data + first, source * d_head, d_head);

    float* const given = attention.data ? attention.data + sentence * beam * source : nullptr;
    if (given) std::fill_n(given, beam * source, 0.0f);
    const Queries asked{queries.data + sentence * beam * d_model, d_model, beam, heads};
    attend_sentence(asked, memory, room(), mixed.data + sentence * beam * d_model, [&] {
      for (size_t i = 0; given && i < beam; ++i) {
        for (size_t p = 0; p < columns.size(); ++p) {
          given[i * source + columns[p]] += room().weights[sight.place(i, p)] / static_cast<float>(heads);
        }
      }
    });
  });
}

}  // namespace xuanzang
