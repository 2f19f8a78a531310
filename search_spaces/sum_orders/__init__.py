"""Orders in which the kernels of schedules add the terms of each result.

Start at ``orders.py``, which returns the order of any schedule, and restricts spaces by a rule on the order. The other
files define the orders of built-in templates. ``search_spaces/spaces/sum_order.py`` has the type of an order. This
package only describes kernels, so it does not affect the versions of templates. It must not import the catalogue or
``search_task``.
"""
