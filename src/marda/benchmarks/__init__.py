"""The paper's experiments: plan runs, execute them, store rows, render tables from rows.

Each module does one of these steps and knows nothing of the next:

====================  ==================================================================
``specs``             what can be run: frozen specs, work units, the planner
``tasks``             a spec's rows: data set, protocol, draw → ``TaskData``
``execute``           one unit → result rows (the only module that fits models)
``store``             rows in SQLite: resume, claims, failures
``runner``            plan + store + worker processes
``paper``             the paper's figures as data
``tables``            rows → tables next to the paper's
``findings``          rows → the paper's qualitative claims, yes or no
``render``            tables → terminal, Markdown, CSV, LaTeX
``demo``              the newcomer's minute on embedded data
====================  ==================================================================

Nothing is imported here, so that planning and rendering never pay for scikit-learn.
"""
