"""What marda is compared with: systems that run here, and figures that others published.

====================  ==================================================================
``adapters``          skada's adapters, and classifiers that know no domains
``published``         accuracies of SKADA-Bench
``systems``           all systems below by name, each with one setting for all data
``gfk``, ``jda``      geodesic flow kernel; joint distribution adaptation
``easytl``            aligned covariances, then a linear program
``meda``              manifold embedded distribution alignment
``spl``, ``cmms``     selective pseudo-labelling; class centroid matching
``auxiliary``         a target classifier that agrees with source classifiers
``projected``         what they share
====================  ==================================================================

The systems are written from their papers, as scikit-learn estimators with ``sample_domain``.
"""
