"""Public names for plug-ins: packages that add a kernel template, an operator, a tensor intrinsic or a sampler.

>>> from autosched.plugins import KernelTemplate, Space, ordinal
"""

from autosched.samplers import Sampler, UnvisitedPool
from search_spaces.catalogue import register
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.intrinsics import register_intrinsic
from search_spaces.hardware.requirements import AlignedRows, AnyLayout, LeadingDimension
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.operators.operator import Operator, Option
from search_spaces.operators.problem import Problem, option
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.spaces.sum_order import OrderPart
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.template import KernelTemplate, TemplateSet

__all__ = [
    "AlignedRows",
    "AnyLayout",
    "Attribute",
    "Config",
    "CostCounts",
    "Device",
    "DeviceSource",
    "Fragment",
    "GeneratedKernel",
    "KernelTemplate",
    "LeadingDimension",
    "NestedLayout",
    "Operand",
    "Operator",
    "Option",
    "OrderPart",
    "Parameter",
    "Problem",
    "Rule",
    "Sampler",
    "Schedule",
    "Space",
    "TemplateSet",
    "TensorIntrinsic",
    "UnvisitedPool",
    "categorical",
    "device_rules",
    "option",
    "ordinal",
    "register",
    "register_intrinsic",
]
