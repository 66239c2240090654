"""The steps of a turn, a file each; a node never calls another node."""

from supportpilot.agent.nodes.act import act
from supportpilot.agent.nodes.approval import approval
from supportpilot.agent.nodes.check import check
from supportpilot.agent.nodes.classify import classify
from supportpilot.agent.nodes.draft import draft
from supportpilot.agent.nodes.finalize import finalize
from supportpilot.agent.nodes.handoff import handoff
from supportpilot.agent.nodes.load_customer import load_customer
from supportpilot.agent.nodes.prepare_context import prepare_context
from supportpilot.agent.nodes.retrieve import retrieve

NODES = (load_customer, prepare_context, classify, retrieve, act, draft, check, approval, finalize, handoff)

__all__ = ["NODES"]
