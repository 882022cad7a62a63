"""Speed and memory, side by side with `tokenizers` and `sentencepiece` in one run.

`pytest benches` checks that all contenders give the same ids, measures them, and ends with tables
of medians and ratios (`report.py`); the figures are kept in `target/bench.json`. No time is ever
asserted.

*Fresh* is text that the instance has not seen, *hot* is the same text again: it measures a cache.
*List* is a Python list of ints, as the peers return; without the word ids are a flat array. Rows of
one thread are CPU time on one core, rows that say "all cores" are wall-clock time. Contenders take
turns, so that what else the machine does hits all of them.
"""
