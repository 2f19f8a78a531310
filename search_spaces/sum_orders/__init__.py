"""Orders in which schedules add the terms of a result.

Start at ``orders.py``: the order of any template's schedules, and spaces restricted by a rule on it. The other files
state the orders of the built-in templates; ``search_spaces/spaces/sum_order.py`` is the value itself. This package
describes kernels and does not change them: an order is not part of a template's version. It must not import the
catalogue or ``search_task``.
"""
