#include "attention.h"

#include <vector>

namespace xuanzang {
namespace {

// The positions that the hypotheses of a sentence see.
class Positions {
 public:
  std::vector<size_t> offsets;  // Offsets of each position's key and value, for the first head.

  // Makes every position of `offsets` visible, until `hide`.
  void show(size_t beam) {
    constexpr size_t kPerVector = kMaxWidth / kQueries;
    padded_ = (offsets.size() + kPerVector - 1) / kPerVector * kPerVector;
    bias_.assign((beam + kQueries - 1) / kQueries * padded_ * kQueries, kHidden);
    for (size_t i = 0; i < beam; ++i) {
      for (size_t position = 0; position < offsets.size(); ++position) bias_[index(i, position)] = 0.0f;
    }
  }

  void hide(size_t hypothesis, size_t position) { bias_[index(hypothesis, position)] = kHidden; }

  // The index of a hypothesis' bias or weight at a position.
  size_t index(size_t hypothesis, size_t position) const {
    return (hypothesis / kQueries * padded_ + position) * kQueries + hypothesis % kQueries;
  }

  // The number of weights.
  size_t weights() const { return bias_.size(); }

  KeyValues of(const float* keys, const float* values, size_t head_stride, size_t d_head) const {
    return {keys, values, head_stride, d_head, offsets.data(), offsets.size(), bias_.data(), padded_};
  }

 private:
  size_t padded_ = 0;
  std::vector<float> bias_;
};

// Buffers that a thread keeps from one sentence to the next.
struct Buffers {
  Positions positions;
  std::vector<size_t> columns;  // The column in `visible` of each position.
  std::vector<float> weights;
};

Buffers& thread_buffers() {
  thread_local Buffers buffers;
  return buffers;
}

// Attention of all hypotheses of a sentence with all heads; `observe` is called after each head, whose weights are in
// the buffers.
template <typename Observe>
void attend_sentence(const Simd& simd, const Queries& queries, const KeyValues& seen, Buffers& buffers, float* mixed,
                     const Observe& observe) {
  buffers.weights.resize(buffers.positions.weights());
  for (size_t head = 0; head < queries.heads; ++head) {
    simd.attend(queries, seen, head, buffers.weights.data(), mixed);
    observe();
  }
}

// Keys and values in pages, and the table of the pages of each sentence.
struct Pages {
  // Keys, values and table are the inputs of these numbers.
  Pages(const Context& context, size_t keys_input, size_t values_input, size_t table_input)
      : keys(context.input<float>(keys_input)),
        values(context.input<float>(values_input)),
        table(context.input<int64_t>(table_input)) {
    require(keys.rank == 4 && values.rank == 4, "a state has the wrong dimensions");
    require(table.rank == 2, "an index has the wrong dimensions");
    require(values.shape == keys.shape, "keys and values differ in shape");
    batch = table.size(0), entries = table.size(1);
    pages = keys.size(0), heads = keys.size(1), slots = keys.size(2), d_head = keys.size(3);
  }

  // The number of slots of a sentence.
  size_t width() const { return entries * slots; }
  size_t head_stride() const { return slots * d_head; }

  // The page of an entry of the table; not below `pages` if there is none.
  size_t page(size_t sentence, size_t entry) const {
    return static_cast<size_t>(table.data[sentence * entries + entry]);
  }

  // Offset of a slot's key and value, for the first head.
  size_t offset(size_t page, size_t slot) const { return (page * heads * slots + slot) * d_head; }

  Tensor<const float> keys, values;
  Tensor<const int64_t> table;
  size_t batch, entries, pages, heads, slots, d_head;
};

struct PagedInputs : Pages {
  explicit PagedInputs(const Context& context)
      : Pages(context, 1, 2, 4),
        projected(context.input<float>(0)),
        slot_indices(context.input<int64_t>(3)),
        visible(context.input<bool>(6)) {
    require(projected.rank == 3, "a state has the wrong dimensions");
    require(slot_indices.rank == 4 && visible.rank == 3, "an index has the wrong dimensions");
    beam = projected.size(1);
    require(projected.size(2) == 3 * heads * d_head, "projected is not three times as wide as all heads");
    require(projected.size(0) == batch && visible.size(0) == batch && slot_indices.size(0) == batch, "batches differ");
    require(visible.size(1) == beam && slot_indices.size(1) == beam, "beams differ");
    require(visible.size(2) == width(), "visible is not as wide as the pages of a sentence");
    require(slot_indices.size(2) == heads && slot_indices.size(3) == 3, "slot_indices does not name slots");
    for (size_t hypothesis = 0; hypothesis < batch * beam; ++hypothesis) {
      require(own_page(hypothesis) < pages && own_slot(hypothesis) < slots, "a slot to write to does not exist");
    }
  }

  // Destination of the step's key and value; the same for all heads.
  size_t own_page(size_t hypothesis) const { return static_cast<size_t>(slot_indices.data[hypothesis * heads * 3]); }
  size_t own_slot(size_t hypothesis) const {
    return static_cast<size_t>(slot_indices.data[hypothesis * heads * 3 + 2]);
  }

  Tensor<const float> projected;
  Tensor<const int64_t> slot_indices;
  Tensor<const bool> visible;
  size_t beam;
};

struct SourceInputs : Pages {
  // The table of pages is the input of that number, behind keys and, where they differ from these, values.
  SourceInputs(const Context& context, size_t table_input)
      : Pages(context, 1, table_input - 1, table_input),
        queries(context.input<float>(0)),
        lengths(context.input<int64_t>(table_input + 2)) {
    require(queries.rank == 3 && lengths.rank == 1, "an input has the wrong dimensions");
    beam = queries.size(1);
    require(queries.size(2) == heads * d_head, "queries are not as wide as all heads");
    require(queries.size(0) == batch && lengths.size(0) == batch, "batches differ");
    for (size_t sentence = 0; sentence < batch; ++sentence) {
      require(length(sentence) <= width(), "a source is longer than its pages");
      for (size_t entry = 0; entry * slots < length(sentence); ++entry) {
        require(page(sentence, entry) < pages, "a page of a source does not exist");
      }
    }
  }

  size_t length(size_t sentence) const { return static_cast<size_t>(lengths.data[sentence]); }

  Tensor<const float> queries;
  Tensor<const int64_t> lengths;
  size_t beam;
};

// Writes the keys and values of a hypothesis' new token.
void write(const PagedInputs& in, size_t hypothesis, float* keys, float* values) {
  const size_t d_model = in.heads * in.d_head, first = in.offset(in.own_page(hypothesis), in.own_slot(hypothesis));
  const float* const states = in.projected.data + hypothesis * 3 * d_model;
  for (size_t head = 0; head < in.heads; ++head) {
    const size_t target = first + head * in.head_stride();
    std::copy_n(states + d_model + head * in.d_head, in.d_head, keys + target);
    std::copy_n(states + 2 * d_model + head * in.d_head, in.d_head, values + target);
  }
}

// Finds the slots that any hypothesis of a sentence sees, in the order of its page table.
void find_positions(const PagedInputs& in, size_t sentence, Buffers& buffers) {
  const size_t width = in.width();
  const bool* const visible = in.visible.data + sentence * in.beam * width;
  auto& [positions, columns, weights] = buffers;
  columns.clear();
  positions.offsets.clear();
  for (size_t entry = 0; entry < in.entries; ++entry) {
    const size_t page = in.page(sentence, entry);
    for (size_t slot = 0; slot < in.slots && page < in.pages; ++slot) {
      const size_t column = entry * in.slots + slot;
      bool seen = false;
      for (size_t i = 0; i < in.beam; ++i) seen |= visible[i * width + column];
      if (!seen) continue;
      columns.push_back(column);
      positions.offsets.push_back(in.offset(page, slot));
    }
  }
  positions.show(in.beam);
  for (size_t i = 0; i < in.beam; ++i) {
    for (size_t position = 0; position < columns.size(); ++position) {
      if (!visible[i * width + columns[position]]) positions.hide(i, position);
    }
  }
}

// Shows the slots of a source.
void show_source(const SourceInputs& in, size_t sentence, Positions& positions) {
  positions.offsets.clear();
  for (size_t slot = 0; slot < in.length(sentence); ++slot) {
    positions.offsets.push_back(in.offset(in.page(sentence, slot / in.slots), slot % in.slots));
  }
  positions.show(in.beam);
}

// Adds one head's share of the mean weight of each slot.
void add_weights(const SourceInputs& in, size_t sentence, const Buffers& buffers, size_t heads, float* attention) {
  for (size_t i = 0; i < in.beam; ++i) {
    for (size_t slot = 0; slot < in.length(sentence); ++slot) {
      attention[i * in.width() + slot] += buffers.weights[buffers.positions.index(i, slot)] / static_cast<float>(heads);
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
  require(keys.data && values.data, "present keys and values are not used");
  if (keys.data != in.keys.data) std::copy_n(in.keys.data, in.keys.elements(), keys.data);
  if (values.data != in.values.data) std::copy_n(in.values.data, in.values.elements(), values.data);
  context.parallel(in.batch, in.batch * in.beam * d_model * in.width(), [&](size_t sentence) {
    const size_t first = sentence * in.beam;
    for (size_t i = 0; i < in.beam; ++i) write(in, first + i, keys.data, values.data);
    Buffers& buffers = thread_buffers();
    find_positions(in, sentence, buffers);
    const KeyValues seen = buffers.positions.of(keys.data, values.data, in.head_stride(), in.d_head);
    const Queries queries{in.projected.data + first * 3 * d_model, 3 * d_model, in.beam, in.heads};
    attend_sentence(context.simd(), queries, seen, buffers, mixed.data + first * d_model, [] {});
  });
}

void CrossAttention::compute(const Context& context) {
  const SourceInputs in(context, 3);
  const size_t d_model = in.heads * in.d_head, size = in.beam * in.width();
  const auto mixed = context.output<float>(0, {in.batch, in.beam, d_model});
  const auto attention = context.output<float>(1, {in.batch, in.beam, in.width()});
  context.parallel(in.batch, in.batch * in.beam * d_model * in.width(), [&](size_t sentence) {
    Buffers& buffers = thread_buffers();
    Positions& positions = buffers.positions;
    show_source(in, sentence, positions);
    const KeyValues seen = positions.of(in.keys.data, in.values.data, in.head_stride(), in.d_head);
    const Queries queries{in.queries.data + sentence * in.beam * d_model, d_model, in.beam, in.heads};
    float* const weights = attention.data ? attention.data + sentence * size : nullptr;
    if (weights) std::fill_n(weights, size, 0.0f);
    attend_sentence(context.simd(), queries, seen, buffers, mixed.data + sentence * in.beam * d_model, [&] {
      if (weights) add_weights(in, sentence, buffers, in.heads, weights);
    });
  });
}

void FirstHeadAttention::compute(const Context& context) {
  const SourceInputs in(context, 2);
  const size_t d_model = in.heads * in.d_head, size = in.beam * in.width();
  const auto attention = context.output<float>(0, {in.batch, in.beam, in.width()});
  std::fill_n(attention.data, attention.elements(), 0.0f);
  context.parallel(in.batch, in.batch * in.beam * in.d_head * in.width(), [&](size_t sentence) {
    Buffers& buffers = thread_buffers();
    thread_local std::vector<float> mixed;
    show_source(in, sentence, buffers.positions);
    mixed.resize(in.beam * d_model);
    buffers.weights.resize(buffers.positions.weights());
    const KeyValues seen = buffers.positions.of(in.keys.data, in.keys.data, in.head_stride(), in.d_head);
    const Queries queries{in.queries.data + sentence * in.beam * d_model, d_model, in.beam, in.heads};
    context.simd().attend(queries, seen, 0, buffers.weights.data(), mixed.data());
    add_weights(in, sentence, buffers, 1, attention.data + sentence * size);
  });
}

}  // namespace xuanzang
