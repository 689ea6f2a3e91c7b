// The choice of hypotheses in sentences that require phrases. It is no operator: the server calls it after each step.
#pragma once

#include <cstdint>

namespace xuanzang {

// A sentence: its automaton, as the server's PhraseAutomaton has it, and its hypotheses.
struct PhraseSentence {
  int64_t phrases, wanted, symbols, chain;  // sizes of axes
  const int16_t* required;                  // [phrase]
  const int16_t* min_tokens;                // [phrase]
  const int16_t* symbol_of;                 // [vocab]
  const int16_t* next_states;               // [state, symbol]
  const int16_t* gained;                    // [state, symbol]
  const int16_t* gains;                     // [gain, phrase]
  const int16_t* pending;                   // [state, phrase]
  const int16_t* rest;                      // [state, phrase]
  const bool* begun;                        // [state, phrase]
  const bool* wanted_for;                   // [state, wanted, phrase]
  const int64_t* wanted_ids;                // [state, wanted]
  const int64_t* chains;                    // [state, chain], -1 for padding
  double* costs;                            // [state], changed
  int64_t* states;                          // [beam], changed
  int16_t* counts;                          // [beam, phrase], changed
  bool* overdue;                            // [beam], whether the model would have ended it before, changed
};

// What one step gives and takes, of all such sentences.
struct PhraseStep {
  int64_t sentences, beam, best, asked, eos_id;  // the first four are sizes of axes
  const PhraseSentence* sentence;                // [sentence]
  const float* scores;                           // [sentence, beam]
  const int64_t* steps_left;                     // [sentence]
  const float* row_scores;                       // [sentence, beam, best]
  const int64_t* row_ids;                        // [sentence, beam, best]
  const float* required_scores;                  // [sentence, beam, asked]
  int64_t* required_ids;                         // [sentence, beam, asked]: those of this step, then of the next
  double* chosen_scores;                         // [sentence, beam]
  int64_t* chosen_tokens;                        // [sentence, beam]
  int64_t* chosen_parents;                       // [sentence, beam]
  int64_t* ending_parents;                       // [sentence, beam], best first, -1 behind the last
  double* ending_scores;                         // [sentence, beam]
};

// Chooses the hypotheses that live on and those that end; returns how many end.
int64_t choose_phrases(const PhraseStep& step);

// Writes the ids whose log-probabilities the next step needs.
void ask_for_phrases(const PhraseStep& step);

}  // namespace xuanzang
