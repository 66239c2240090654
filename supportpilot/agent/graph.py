"""The graph: nodes, edges, and what surrounds every node (scope, lease, cost)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from supportpilot.agent import routes
from supportpilot.agent.deps import Deps
from supportpilot.agent.nodes import NODES
from supportpilot.agent.plain import plain
from supportpilot.agent.state import SupportState
from supportpilot.errors import ModelOutputUnusable, Overtaken
from supportpilot.types import LivePort, TurnScope, turn_scope

Node = Callable[[Any, Deps], Any]
# Before these a turn ends if the customer has written again: each asks a model or a human. What stores an answer asks
# once more, under the ticket's lock.
COSTLY = frozenset({"classify", "act", "draft", "check", "approval"})

Graph = CompiledStateGraph[SupportState, None, SupportState, SupportState]


def build_graph(deps: Deps, checkpointer: BaseCheckpointSaver[Any] | None = None) -> Graph:
    """Compile the graph, once per process: `deps` hold what lives long, the config what belongs to one turn.

    Config: `{"configurable": {"thread_id": ticket id, "turn_id": …, "__lease_token": …}}`, the last two optional.
    """
    graph = StateGraph(SupportState)
    for node in NODES:
        # A node sees only what its first parameter declares (the overloads want that spelled out per node).
        sees = get_type_hints(node)["state"]
        graph.add_node(node.__name__, _around(node, deps), input_schema=sees)  # type: ignore[call-overload]
    graph.add_edge(START, "load_customer")
    graph.add_edge("load_customer", "prepare_context")
    graph.add_edge("prepare_context", "classify")
    graph.add_conditional_edges("classify", routes.after_classify, ["retrieve", "handoff", "finalize"])
    graph.add_conditional_edges("retrieve", routes.after_retrieve, ["act", "draft", "handoff"])
    graph.add_conditional_edges("act", routes.after_act, ["draft", "handoff"])
    graph.add_conditional_edges("draft", routes.after_draft, ["check", "handoff"])
    graph.add_conditional_edges("check", routes.after_check, ["approval", "finalize", "draft", "handoff"])
    graph.add_conditional_edges("approval", routes.after_approval, ["finalize", "handoff"])
    graph.add_edge("finalize", END)
    graph.add_edge("handoff", END)
    return graph.compile(checkpointer=checkpointer)


def _around(node: Node, deps: Deps) -> Callable[[dict[str, Any], RunnableConfig], dict[str, Any]]:
    def run(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        live: LivePort | None = config.get("configurable", {}).get("__live")
        with turn_scope(_scope(node.__name__, state, config, live)) as scope:
            deps.check_lease(scope.lease_token)
            if scope.lease_token and node.__name__ in COSTLY and deps.overtaken(scope.turn_id):
                raise Overtaken(f"{scope.ticket_id} was written to before {node.__name__}")
            if live is not None:
                live.step(node.__name__)
            try:
                update = dict(node(state, deps))
            except ModelOutputUnusable as error:
                update = {"handoff_reason": f"the model's output was unusable in {node.__name__}: {error}"}
        update = {key: plain(value) for key, value in update.items()} | {"cost_cny": float(sum(scope.spent))}
        _emit(node.__name__, update, live)
        return update

    return run


def _scope(node: str, state: dict[str, Any], config: RunnableConfig, live: LivePort | None) -> TurnScope:
    given = config.get("configurable", {})
    return TurnScope(
        ticket_id=given.get("thread_id") or state["ticket"]["id"],
        turn_id=given.get("turn_id") or state.get("turn_id") or "",
        node=node, lease_token=given.get("__lease_token"),
        on_token=live.token if live is not None and live.on and node == "draft" else None,
    )


def _emit(node: str, update: dict[str, Any], live: LivePort | None) -> None:
    write = get_stream_writer()
    for call in update.get("tool_log", ()):
        if live is not None:
            live.tool(call["name"], call["args"], is_error=bool(call.get("is_error")))
        write({"type": "tool", "name": call["name"], "args": call["args"]})
    write({"type": "step", "node": node})
