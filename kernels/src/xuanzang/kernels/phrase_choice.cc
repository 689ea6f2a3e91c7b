#include "phrase_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace xuanzang {
namespace {

// The constants of the server's ArrayChoice and PhraseTables, which this equals bit for bit.
constexpr double kDead = -1.0e8;
constexpr double kPhraseAhead = -4.0;
constexpr double kLater = 1.0e6;
constexpr float kWouldEnd = -3.0f;
constexpr float kWorstToken = -30.0f;
constexpr float kPrecision = 1.0f / 1024.0f;

struct Candidate {
  int64_t token, parent, state;
  double total;  // log-probability
  double value;  // with what the phrase begun is expected to cost yet, and much less if it is padding
  double worth;
  int64_t bank, left;
  size_t counts;  // place of its first count
  bool overdue;   // whether the model would have ended it before
  bool padding;   // whether it is text of the model's own after that, while phrases are lacking
};

// The choice in one sentence.
class Choice {
 public:
  Choice(const PhraseStep& step, size_t number)
      : step_(step),
        sentence_(step.sentence[number]),
        number_(number),
        beam_(static_cast<size_t>(step.beam)),
        phrases_(static_cast<size_t>(sentence_.phrases)),
        banks_(1),
        lacking_(beam_ * phrases_) {
    for (size_t phrase = 0; phrase < phrases_; ++phrase) banks_ += sentence_.required[phrase];
  }

  // Returns the number of hypotheses that end.
  size_t run() {
    find_lacking();
    find_overdue();
    learn();
    for (size_t parent = 0; parent < beam_; ++parent) add_continuations(parent);
    drop_late();
    const size_t ended = end();
    live_on();
    return ended;
  }

 private:
  const int16_t* counts_of(size_t parent) const { return sentence_.counts + parent * phrases_; }
  size_t row(size_t parent) const { return number_ * beam_ + parent; }

  template <typename T>
  const T* of_state(const T* table, int64_t state, size_t width) const {
    return table + static_cast<size_t>(state) * width;
  }

  void find_lacking() {
    for (size_t parent = 0; parent < beam_; ++parent) {
      const int16_t* pending = of_state(sentence_.pending, sentence_.states[parent], phrases_);
      for (size_t phrase = 0; phrase < phrases_; ++phrase) {
        lacking_[parent * phrases_ + phrase] = sentence_.required[phrase] > counts_of(parent)[phrase] + pending[phrase];
      }
    }
  }

  void find_overdue() {
    const size_t asked = static_cast<size_t>(step_.asked);
    for (size_t parent = 0; parent < beam_; ++parent) {
      sentence_.overdue[parent] |= step_.required_scores[row(parent) * asked + asked - 1] > kWouldEnd;
    }
  }

  // Notes what the next token of the phrase that a hypothesis is within costs; the greatest counts.
  void learn() {
    std::vector<std::pair<int64_t, float>> seen;
    for (size_t parent = 0; parent < beam_; ++parent) {
      const int64_t state = sentence_.states[parent];
      const float gain = step_.required_scores[row(parent) * static_cast<size_t>(step_.asked)];
      const bool* begun = of_state(sentence_.begun, state, phrases_);
      bool within = false;
      for (size_t phrase = 0; phrase < phrases_; ++phrase) within |= begun[phrase] && lacks(parent, phrase);
      if (!within || !(gain > kDead)) continue;
      seen.emplace_back(state, std::nearbyint(std::max(gain, kWorstToken) / kPrecision) * kPrecision);
      sentence_.costs[state] = -std::numeric_limits<double>::infinity();
    }
    for (const auto& [state, cost] : seen) {
      sentence_.costs[state] = std::max(sentence_.costs[state], static_cast<double>(cost));
    }
  }

  bool lacks(size_t parent, size_t phrase) const { return lacking_[parent * phrases_ + phrase]; }

  bool lacks_any(size_t parent) const {
    const auto first = lacking_.begin() + static_cast<std::ptrdiff_t>(parent * phrases_);
    return std::find(first, first + static_cast<std::ptrdiff_t>(phrases_), 1) !=
           first + static_cast<std::ptrdiff_t>(phrases_);
  }

  // Adds the required continuations of a hypothesis that are not among its best, and then these.
  void add_continuations(size_t parent) {
    const size_t wanted = static_cast<size_t>(sentence_.wanted), asked = static_cast<size_t>(step_.asked);
    const size_t best = static_cast<size_t>(step_.best);
    const bool may_end = !lacks_any(parent);
    const int64_t* best_ids = step_.row_ids + row(parent) * best;
    const int64_t* ids = step_.required_ids + row(parent) * asked;
    const float* scores = step_.required_scores + row(parent) * asked;
    const auto is_new = [&](int64_t id) { return std::find(best_ids, best_ids + best, id) == best_ids + best; };
    for (size_t column = 0; column < wanted; ++column) {
      if (helps(parent, column) && is_new(ids[column])) add(parent, ids[column], scores[column], may_end, false);
    }
    if (may_end && is_new(ids[asked - 1])) add(parent, ids[asked - 1], scores[asked - 1], may_end, false);
    const float* best_scores = step_.row_scores + row(parent) * best;
    for (size_t column = 0; column < best; ++column) {
      const bool padding = !may_end && sentence_.overdue[parent] && !brings_on(parent, best_ids[column], ids);
      add(parent, best_ids[column], best_scores[column], may_end, padding);
    }
  }

  // Returns whether a token is one of those asked for and brings a phrase on.
  bool brings_on(size_t parent, int64_t token, const int64_t* ids) const {
    const size_t wanted = static_cast<size_t>(sentence_.wanted);
    for (size_t column = 0; column < wanted; ++column) {
      if (ids[column] == token && helps(parent, column)) return true;
    }
    return false;
  }

  bool helps(size_t parent, size_t column) const {
    const size_t wanted = static_cast<size_t>(sentence_.wanted);
    const bool* phrases = of_state(sentence_.wanted_for, sentence_.states[parent], wanted * phrases_);
    for (size_t phrase = 0; phrase < phrases_; ++phrase) {
      if (phrases[column * phrases_ + phrase] && lacks(parent, phrase)) return true;
    }
    return false;
  }

  void add(size_t parent, int64_t token, float gain, bool may_end, bool padding) {
    const double total = static_cast<double>(step_.scores[row(parent)]) + static_cast<double>(gain);
    if (!(total > kDead) || (token == step_.eos_id && !may_end)) return;
    const size_t cell = static_cast<size_t>(sentence_.states[parent] * sentence_.symbols + sentence_.symbol_of[token]);
    Candidate candidate{};
    candidate.token = token;
    candidate.parent = static_cast<int64_t>(parent);
    candidate.state = sentence_.next_states[cell];
    candidate.total = total;
    candidate.counts = counts_.size();
    candidate.overdue = sentence_.overdue[parent];
    candidate.padding = padding;
    const int16_t* gains = of_state(sentence_.gains, sentence_.gained[cell], phrases_);
    for (size_t phrase = 0; phrase < phrases_; ++phrase) {
      const int count = counts_of(parent)[phrase] + gains[phrase];
      counts_.push_back(static_cast<int16_t>(std::min<int>(count, sentence_.required[phrase])));
    }
    judge(candidate);
    candidates_.push_back(candidate);
  }

  // Finds the bank of a candidate, its value, and the tokens that its phrases need yet.
  void judge(Candidate& candidate) const {
    const int16_t* pending = of_state(sentence_.pending, candidate.state, phrases_);
    const int16_t* rest = of_state(sentence_.rest, candidate.state, phrases_);
    const bool* begun = of_state(sentence_.begun, candidate.state, phrases_);
    int64_t lacked = 0, left = 0, saved = 0;
    bool is_within = false;
    for (size_t phrase = 0; phrase < phrases_; ++phrase) {
      const int missing =
          std::max(sentence_.required[phrase] - counts_[candidate.counts + phrase] - pending[phrase], 0);
      lacked += missing;
      left += missing * sentence_.min_tokens[phrase];
      if (!begun[phrase] || !missing) continue;
      is_within = true;
      saved = std::max<int64_t>(saved, sentence_.min_tokens[phrase] - rest[phrase]);
    }
    candidate.left = left - saved;
    candidate.bank = banks_ - 1 - lacked + is_within;
    candidate.value =
        candidate.total + (is_within ? ahead(candidate.state) : 0.0) - (candidate.padding ? 2 * kLater : 0.0);
  }

  double ahead(int64_t state) const {
    const int64_t* chain = of_state(sentence_.chains, state, static_cast<size_t>(sentence_.chain));
    double sum = 0.0;
    for (int64_t place = 0; place < sentence_.chain && chain[place] >= 0; ++place) sum += sentence_.costs[chain[place]];
    return sum;
  }

  // Drops candidates that cannot hold all phrases in time, unless none can.
  void drop_late() {
    const int64_t left = std::max<int64_t>(step_.steps_left[number_], 1);
    const auto late = [left](const Candidate& candidate) { return candidate.left >= left; };
    if (std::all_of(candidates_.begin(), candidates_.end(), late)) return;
    candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), late), candidates_.end());
  }

  // Ends the hypotheses that are among the best of the bank with all phrases.
  size_t end() {
    std::vector<const Candidate*> endings;
    for (const Candidate& candidate : candidates_) {
      if (candidate.token != step_.eos_id) continue;
      const auto is_better = [&](const Candidate& other) {
        return other.bank == banks_ - 1 && other.value > candidate.value;
      };
      const auto better = std::count_if(candidates_.begin(), candidates_.end(), is_better);
      if (better < step_.beam && endings.size() < beam_) endings.push_back(&candidate);
    }
    std::stable_sort(endings.begin(), endings.end(),
                     [](const Candidate* one, const Candidate* other) { return one->total > other->total; });
    for (size_t place = 0; place < beam_; ++place) {
      const bool is_one = place < endings.size();
      step_.ending_parents[row(place)] = is_one ? endings[place]->parent : -1;
      step_.ending_scores[row(place)] = is_one ? endings[place]->total : 0.0;
    }
    return endings.size();
  }

  // Keeps the best of each bank, then the best of the others.
  void live_on() {
    const auto ends = [&](const Candidate& candidate) { return candidate.token == step_.eos_id; };
    candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), ends), candidates_.end());
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& one, const Candidate& other) { return one.value > other.value; });
    const int64_t quota = std::max<int64_t>(1, step_.beam / banks_);
    std::vector<int64_t> ranks(static_cast<size_t>(banks_));
    for (Candidate& candidate : candidates_) {
      const bool is_later = ranks[static_cast<size_t>(candidate.bank)]++ >= quota;
      const double behind = kPhraseAhead * static_cast<double>(banks_ - 1 - candidate.bank);
      candidate.worth = candidate.value + behind - (is_later ? kLater : 0.0);
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& one, const Candidate& other) { return one.worth > other.worth; });
    for (size_t place = 0; place < beam_; ++place) keep(place);
  }

  void keep(size_t place) const {
    const bool lives = place < candidates_.size();
    step_.chosen_scores[row(place)] = lives ? candidates_[place].total : 10 * kDead;
    step_.chosen_tokens[row(place)] = lives ? candidates_[place].token : step_.eos_id;
    step_.chosen_parents[row(place)] = lives ? candidates_[place].parent : 0;
    sentence_.states[place] = lives ? candidates_[place].state : 0;
    sentence_.overdue[place] = lives && candidates_[place].overdue;
    int16_t* counts = sentence_.counts + place * phrases_;
    std::fill_n(counts, phrases_, static_cast<int16_t>(0));
    if (lives) std::copy_n(counts_.begin() + static_cast<std::ptrdiff_t>(candidates_[place].counts), phrases_, counts);
  }

  const PhraseStep& step_;
  const PhraseSentence& sentence_;
  const size_t number_, beam_, phrases_;
  int64_t banks_;
  std::vector<char> lacking_;  // [beam, phrase]
  std::vector<Candidate> candidates_;
  std::vector<int16_t> counts_;
};

}  // namespace

int64_t choose_phrases(const PhraseStep& step) {
  size_t ended = 0;
  for (int64_t number = 0; number < step.sentences; ++number) ended += Choice(step, static_cast<size_t>(number)).run();
  ask_for_phrases(step);
  return static_cast<int64_t>(ended);
}

void ask_for_phrases(const PhraseStep& step) {
  for (int64_t number = 0; number < step.sentences; ++number) {
    const PhraseSentence& sentence = step.sentence[number];
    for (int64_t place = 0; place < step.beam; ++place) {
      const int64_t* ids = sentence.wanted_ids + sentence.states[place] * sentence.wanted;
      std::copy_n(ids, sentence.wanted, step.required_ids + (number * step.beam + place) * step.asked);
    }
  }
}

}  // namespace xuanzang
