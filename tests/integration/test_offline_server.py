"""The offline model's protocol, as any OpenAI client sees it."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest
from fixtures.llm import OfflineLLM
from fixtures.prompts import TOOLS, prompt

from supportpilot.llm.offline.wire import MODELS

pytestmark = pytest.mark.integration


def post(server: OfflineLLM, path: str = "/chat/completions", **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, timeout=10, trust_env=False)


def test_the_models_are_labelled_as_what_they_are(offline_llm: OfflineLLM) -> None:
    listed = httpx.get(f"{offline_llm.url}/models", trust_env=False).json()["data"]
    assert [m["id"] for m in listed] == list(MODELS)
    assert {m["owned_by"] for m in listed} == {"offline rule model, not an LLM"}


def test_any_model_name_is_accepted_and_given_back(offline_llm: OfflineLLM) -> None:
    reply = post(offline_llm, model="gpt-x", messages=[{"role": "user", "content": "hi"}]).json()
    assert reply["model"] == "gpt-x"
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]


def test_the_same_request_has_the_same_answer_and_usage(offline_llm: OfflineLLM) -> None:
    request = {"model": MODELS[0], "messages": prompt("triage", newest="发票抬头错了")}
    assert post(offline_llm, **request).json() == post(offline_llm, **request).json()


def test_a_stream_ends_with_usage_and_done(offline_llm: OfflineLLM) -> None:
    reply = post(offline_llm, model="m", messages=prompt("triage", newest="发票"), stream=True, stream_options={"include_usage": True})
    events = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(e) for e in events[:-1]]
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert json.loads(text)["category"] == "invoice"


def test_streamed_tool_calls_carry_their_index(offline_llm: OfflineLLM) -> None:
    reply = post(offline_llm, model="m", messages=prompt("act", newest="我的退款什么时候到账"), tools=TOOLS, stream=True)
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in reply.text.splitlines() if line.startswith("data: {")]
    calls = [call for d in deltas for call in d.get("tool_calls", [])]
    assert [(c["index"], c["function"]["name"]) for c in calls] == [(0, "list_invoices"), (1, "search_past_tickets")]


@pytest.mark.parametrize("body", [
    {}, {"model": "m"}, {"model": "m", "messages": []}, {"model": "m", "messages": [{"role": "king", "content": "x"}]},
    {"model": "m", "messages": "x"}, {"model": "m", "messages": [{"role": "user", "content": 1}]},
    {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "yaml"}},
])
def test_a_malformed_request_is_told_so_in_the_protocol(offline_llm: OfflineLLM, body: dict[str, Any]) -> None:
    reply = post(offline_llm, **body)
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_no_json_is_a_400_and_an_unknown_path_a_404(offline_llm: OfflineLLM) -> None:
    assert httpx.post(f"{offline_llm.url}/chat/completions", content=b"{nope", trust_env=False).status_code == 400
    assert httpx.get(f"{offline_llm.url}/nothing", trust_env=False).status_code == 404
    assert post(offline_llm, "/nothing").status_code == 404


def test_embeddings_are_normalised_and_near_for_near_texts(offline_llm: OfflineLLM) -> None:
    texts = ["银行流水同步失败", "银行流水不同步了", "发票抬头写错"]
    data = post(offline_llm, "/embeddings", model="m", input=texts).json()["data"]
    one, near, far = (d["embedding"] for d in data)
    assert len(one) == 256
    assert math.isclose(sum(v * v for v in one), 1.0, rel_tol=1e-6)
    def likeness(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))
    assert likeness(one, near) > likeness(one, far)
    assert post(offline_llm, "/embeddings", model="m", input=[]).status_code == 400


def test_faults_hit_only_their_task_and_only_so_often(offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="500", task="draft", times=1)
    ask = {"model": "m", "messages": prompt("triage", newest="x")}
    write = {"model": "m", "messages": prompt("draft", newest="x")}
    assert [post(offline_llm, **b).status_code for b in (ask, write, write)] == [200, 500, 200]


def test_an_unknown_order_is_refused(offline_llm: OfflineLLM) -> None:
    root = offline_llm.url.removesuffix("/v1")
    for order in ({"error": "fire"}, {"latency": 3}):
        assert httpx.post(f"{root}/_control", json=order, trust_env=False).status_code == 400


def test_the_adversarial_summary_says_what_no_summary_may(offline_llm: OfflineLLM) -> None:
    offline_llm.control(error="adversarial_summary", task="summary")
    text = post(offline_llm, model="m", messages=prompt("summary", transcript="客户:你好")).json()["choices"][0]["message"]["content"]
    assert "88888" in text


def test_latency_is_added(offline_llm: OfflineLLM) -> None:
    offline_llm.control(latency_ms=300)
    assert post(offline_llm, model="m", messages=prompt("triage", newest="x")).elapsed.total_seconds() >= 0.3


def test_what_the_model_saw_can_be_read_back_up_to_200_requests(offline_llm: OfflineLLM) -> None:
    with httpx.Client(trust_env=False) as client:
        for n in range(205):
            client.post(f"{offline_llm.url}/chat/completions", json={"model": "m", "messages": prompt("triage", newest=str(n))})
    seen = offline_llm.requests("triage")
    assert len(seen) == 200
    assert "\n204\n" in seen[-1]["messages"][1]["content"]


def test_many_clients_are_served_at_once(offline_llm: OfflineLLM) -> None:
    offline_llm.control(latency_ms=200, times=None)
    taken: list[float] = []
    threads = [threading.Thread(target=lambda: taken.append(
        post(offline_llm, model="m", messages=prompt("triage", newest="x")).elapsed.total_seconds())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 20
    assert max(taken) < 3.0, "one after the other would take four seconds"


def test_the_process_prints_where_it_listens() -> None:
    process = subprocess.Popen([sys.executable, "-m", "supportpilot.llm.offline.server", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+/v1)\n", process.stdout.readline())
        assert found is not None
        assert httpx.get(f"{found[1]}/models", trust_env=False).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=10)
