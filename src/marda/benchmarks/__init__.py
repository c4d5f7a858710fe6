"""Benchmarks: plan runs, execute them, store rows, render tables from rows.

Each module does one of these steps and knows nothing of the next:

====================  ==================================================================
``plan``              what can be run: specs with stable keys, the planner, `Request`
``execute``           one unit → result rows (the only module that fits models)
``peers``             what marda is compared with: systems of others that run here
``runner``            plan + store + worker processes, and their progress
``store``             result rows in SQLite: resume, claims, failures
``published``         figures of the paper and of others, and the paper's claims, as data
``tables``            rows → the paper's tables next to ours, and its findings
``leaderboard``       rows → marda's own choice next to the alternatives
``render``            tables, rows and times → terminal, Markdown, CSV, LaTeX
``results``           a folder of results: run, write, read back; `Results`
``demonstration``     the newcomer's minute on embedded data
``speed_cases``       speed and memory against reference implementations, one function each
``speed_claims``      the bounds that they must keep: what ``marda bench`` runs
====================  ==================================================================

Nothing is imported here, so that planning and rendering never pay for scikit-learn.
"""
