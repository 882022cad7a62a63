"""Speed and memory beside other libraries: `python -m benches`, or `make bench`.

What goes in: the vocabularies and texts of `../shared` where they are, else the embedded vocabulary
and the standard library's manual and source. What comes out: `target/bench/results.json` with every
sample; from it all tables, `benches/RESULTS.md`, and plots; from the tables,
`docs/generated/benchmarks.md`.

Reading order is the data flow:

    contenders   which libraries, at which versions          a table
    environments a virtual environment for each
    vocabularies each library's own form of a vocabulary
    texts        what is encoded
    plan         which rows there are, from quick to full
    workers      the harness's end of a worker process
    worker       its other end; `adapters` and `jobs` run there, beside the library
    run          goes over rows, rounds and contenders, in this order
    results      what was measured; `stats` are its medians and spread
    targets      what the project aims at                    a table
    page, plots  all tables in Markdown, and SVG
    summary      from the tables, the page of the documents
    compare      whether two runs say the same

**How a figure is made.** Every contender has a process that has imported it and read nothing; it is
pinned to one core. Each sample is taken in a fork of that process: it loads the vocabulary, makes
a first call and then what is timed: so *fresh* is an instance that has seen no other text, or only
the text that the row names, and nothing that one library caches for a whole process can help it.
*Hot* is the same text again by the same instance: it measures a cache. Rounds go over contenders in
turns (a, b, c, a, b, c), so that what else the machine does hits all of them; one whose samples are
dear gives fewer of them, spread over all rounds. The clock is the CPU time of the process with all
its threads. *List* is a Python list of ints, *flat* the most compact form that a library gives: a
buffer, an array, or its list where it has nothing else.

Loading is most of what a sample costs. A loaded process could be forked for each text instead, but
its pages would be copied as they are written: at a cost that is no part of encoding, and largest
for who has the largest tables.

Ids of every sample are compared with ours. A peer whose ids differ, or that fails or takes too
long, has no figure in that row, but a note.
"""
