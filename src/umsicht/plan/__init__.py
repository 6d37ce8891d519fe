"""What a training will cost, before it is paid: operations, memory, time, money, context, and a prediction that is graded afterwards."""

from umsicht.plan.budget import Cost, Workload, bill
from umsicht.plan.flops import ModelCost, model_cost, utilisation

__all__ = ["Cost", "ModelCost", "Workload", "bill", "model_cost", "utilisation"]
