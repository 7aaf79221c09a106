"""The official client libraries judge our wire formats: `agree.py DIR`, after the example `wire` has filled DIR.

Each request body must be one that the library's own types allow, and each stream that our fake servers send must be read by the
library as the answer that it was made from. A difference ends with status 1.
"""

import http.server
import json
import pathlib
import sys
import threading

import anthropic
import openai
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

BODY = {
    "anthropic": TypeAdapter(MessageCreateParamsStreaming),
    "openai": TypeAdapter(CompletionCreateParamsStreaming),
}
STOP = {
    "anthropic": {"finished": "end_turn", "tool_use": "tool_use", "length": "max_tokens", "refused": "refusal"},
    "openai": {"finished": "stop", "tool_use": "tool_calls", "length": "length", "refused": "content_filter"},
}
# The library reports these endings as errors.
RAISED = {openai.LengthFinishReasonError: "length", openai.ContentFilterFinishReasonError: "refused"}


class Server(http.server.ThreadingHTTPServer):
    """Answers every request with the same stream."""

    wire = b""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.server.wire)

    def log_message(self, *_):
        pass


def heard_by_anthropic(base):
    client = anthropic.Anthropic(base_url=base, api_key="k", max_retries=0)
    with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
        message = stream.get_final_message()
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "reasoning": "".join(block.thinking for block in message.content if block.type == "thinking"),
        "calls": [[block.id, block.name, block.input] for block in message.content if block.type == "tool_use"],
        "stop": message.stop_reason,
        "output_tokens": message.usage.output_tokens,
        "cache_read_tokens": message.usage.cache_read_input_tokens,
    }


def heard_by_openai(base):
    client = openai.OpenAI(base_url=base + "/v1", api_key="k", max_retries=0)
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream_options": {"include_usage": True}}
    with client.chat.completions.stream(**asked) as stream:
        completion = stream.get_final_completion()
    message = completion.choices[0].message
    calls = message.tool_calls or []
    return {
        "text": message.content or "",
        "calls": [[call.id, call.function.name, json.loads(call.function.arguments)] for call in calls],
        "stop": completion.choices[0].finish_reason,
        "output_tokens": completion.usage.completion_tokens,
        "cache_read_tokens": completion.usage.prompt_tokens_details.cached_tokens,
    }


def said(provider, answer):
    message = answer["message"]
    return {
        "text": message.get("text", ""),
        "reasoning": message.get("reasoning", ""),
        "calls": [[call["id"], call["name"], call["arguments"]] for call in message.get("tool_calls", [])],
        "stop": STOP[provider][answer["stop"]],
        "output_tokens": answer["usage"]["output_tokens"],
        "cache_read_tokens": answer["usage"]["cache_read_tokens"],
    }


def differences(server, provider, folder):
    BODY[provider].validate_json((folder / "body.json").read_bytes())
    answer = json.loads((folder / "answer.json").read_bytes())
    if any("malformed" in call for call in answer["message"].get("tool_calls", [])):
        return []  # The libraries have no word for it.
    server.wire = (folder / "wire.txt").read_bytes()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        heard = heard_by_anthropic(base) if provider == "anthropic" else heard_by_openai(base)
    except tuple(RAISED) as error:
        ending = RAISED[type(error)]
        return [] if ending == answer["stop"] else [f"ended as {ending}, not {answer['stop']}"]
    expected = said(provider, answer)
    return [f"{key}: heard {value!r}, said {expected[key]!r}" for key, value in heard.items() if value != expected[key]]


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    judged, wrong = 0, 0
    for provider in BODY:
        for folder in sorted((pathlib.Path(sys.argv[1]) / provider).iterdir()):
            found = differences(server, provider, folder)
            judged, wrong = judged + 1, wrong + bool(found)
            for line in found:
                print(f"{provider}/{folder.name}: {line}")
    print(f"{judged} streams and requests judged, {wrong} wrong")
    sys.exit(1 if wrong or not judged else 0)


main()
