"""Times on a GPU: start at ``runner``. ``worker`` is the process that launches, ``baselines`` the libraries."""
