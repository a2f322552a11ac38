"""The reference, made from the code: pages of docs/reference/.

    make reference      # writes them anew

A test compares what is written there with what the code says. `man` and `pool` ask the installed programs, `python_api`
the installed package; `http_paths` and `no_effect` read sources.
"""
