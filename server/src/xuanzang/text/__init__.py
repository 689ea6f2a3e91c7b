"""Processing of text before and after its translation: sentences, tokens, languages, terms and markup.

>>> from xuanzang.text.language_detection import LanguageChoice, LanguageDetector, read
>>> from xuanzang.text.sentences import split_sentences
>>> split_sentences("我有一只猫。It sleeps.")
['我有一只猫。', 'It sleeps.']
>>> reading = read("こんにちは、元気ですか。", LanguageDetector(None), LanguageChoice(sources=("ja", "zh")))
>>> reading.kind.value, reading.language
('served', 'ja')
"""
