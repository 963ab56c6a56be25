"""The HTTP API: run, look, health, metrics. Errors are JSON, and no request can stop the server."""

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

import mirada
from mirada.looking.change.changes import changes_as_json
from mirada.runs.answers import WrittenPiece
from mirada.web.batching import Batcher, FunctionCall, StreamEnd, TextStream, Work
from mirada.web.metrics import CONTENT_TYPE, ServerMetrics
from mirada.web.options import CLIENT_GONE, Limits, Refused
from mirada.web.protocol import error_response, event, json_response
from mirada.web.requests import AnswerRequest, Body, answers_to_request, read_body, read_look, read_run
from mirada.web.runs import ServedRuns
from mirada.words import visible

Handler = Callable[[Request], Awaitable[Response]]
Reader = Callable[[Body, ServedRuns, Limits], AnswerRequest]
EVENTS: dict[str, Any] = {"media_type": "text/event-stream", "headers": {"X-Accel-Buffering": "no"}}

SOON = 0.05  # seconds within which most requests are answered; only slower ones watch for a disconnect of the client


class AnswerWork(Work):
    """Inputs to be answered, in a batch with those of other requests for the same run and options."""

    kind = "run"

    def __init__(self, parsed: AnswerRequest, metrics: ServerMetrics) -> None:
        super().__init__()
        self.parsed, self.metrics = parsed, metrics
        self.key, self.size, self.bytes = parsed.key, len(parsed.questions), parsed.bytes
        self.joins = parsed.joins

    def steps(self) -> Generator[Any, Any, Any]:
        parsed, run = self.parsed, self.parsed.run
        found = yield from run.answering(parsed.questions, run.asked(parsed.ask))
        answers = [answer.to_dict() for answer in found]
        self.metrics.answered(run.name, len(answers), sum("error" in answer for answer in answers))
        return answers

    def compute(self, together: Sequence[Work]) -> list[Any]:
        parts = [work.parsed.questions for work in together if isinstance(work, AnswerWork)]
        everything = tuple(question for part in parts for question in part)
        parsed, run = self.parsed, self.parsed.run
        with run.while_wanted(lambda: any(not work.cancelled for work in together), parsed.changes):
            answers = [answer.to_dict() for answer in answers_to_request(replace(parsed, questions=everything))]
        self.metrics.batches.observe(len(answers))
        self.metrics.answered(run.name, len(answers), sum("error" in answer for answer in answers))
        rest = iter(answers)
        return [list(islice(rest, len(part))) for part in parts]


class Api:
    """The handlers of all routes below /api."""

    def __init__(self, runs: ServedRuns, limits: Limits) -> None:
        self.runs, self.limits = runs, limits
        self.metrics = ServerMetrics()
        self.batcher = Batcher(limits, self.metrics)

    # routes

    async def health(self, request: Request) -> Response:
        """The runs that are served."""
        described = [run.describe() for run in self.runs]
        only = {"task": described[0]["task"], "model": described[0]["model"]} if len(described) == 1 else {}
        return json_response({"status": "ok", **only, "version": mirada.__version__, "runs": described})

    async def metrics_text(self, request: Request) -> Response:
        """The counters, as text."""
        gauges = {
            "mirada_queue_inputs": ("Inputs that wait.", float(self.batcher.inputs)),
            "mirada_queue_bytes": ("Bytes of memory that they hold.", float(self.batcher.bytes)),
            "mirada_running_inputs": ("Inputs that are being answered.", float(self.batcher.running)),
        }
        return Response(self.metrics.text(gauges), media_type=CONTENT_TYPE)

    async def run(self, request: Request) -> Response:
        """Answers to inputs."""
        parsed = await self.read(read_run, request)
        if parsed.stream:
            return await self.stream(request, parsed)
        return json_response({"answers": await self.answers(request, parsed)})

    async def look(self, request: Request) -> Response:
        """The attention behind an answer, as a .attn file."""
        parsed = await self.read(read_look, request)
        work = FunctionCall("look", lambda: self.attention_file(parsed, lambda: not work.cancelled), parsed.bytes)
        (content,) = await self.computed(request, [work])
        disposition = {"Content-Disposition": 'attachment; filename="mirada.attn"'}
        return Response(content, media_type="application/zip", headers=disposition)

    # shared by the routes

    async def read(self, reader: Reader, request: Request) -> AnswerRequest:
        """Parse the body of a request. Files are decoded in a thread, not on the event loop."""
        body = await read_body(request, self.limits)
        if body.files or any(run.task.takes_files for run in self.runs):
            try:
                async with asyncio.timeout(self.limits.seconds):
                    return await asyncio.to_thread(reader, body, self.runs, self.limits)
            except TimeoutError:
                raise Refused(504, f"not read within {self.limits.seconds:g} seconds: send less, or later") from None
        return reader(body, self.runs, self.limits)

    async def answers(self, request: Request, parsed: AnswerRequest) -> list[dict[str, Any]]:
        """Answers as JSON objects. Inputs with changes are computed one by one, sampled answers of a request in one batch."""
        count = len(parsed.questions)
        size = 1 if parsed.changes else count if parsed.draws else 1 if parsed.joins else self.limits.together
        works = [AnswerWork(parsed.part(first, first + size), self.metrics) for first in range(0, count, size)]
        parts = await self.computed(request, works)
        return [answer for part in parts for answer in part]

    async def computed(self, request: Request, works: Sequence[Work]) -> list[Any]:
        """The results of works: within the time limit, and only while the client is connected."""
        self.batcher.put(*works)
        end = asyncio.get_running_loop().time() + self.limits.seconds
        gone: asyncio.Future[None] | None = None
        why = "cancelled"
        pending: set[asyncio.Future[Any]] = {work.done for work in works}
        try:
            _, pending = await asyncio.wait(pending, timeout=min(SOON, self.limits.seconds))
            while pending:
                gone = gone or asyncio.ensure_future(_wait_for_disconnect(request))
                rest = end - asyncio.get_running_loop().time()
                if rest <= 0:
                    why = "time"
                    raise Refused(504, f"no answer within {self.limits.seconds:g} seconds: ask for less, or later")
                done, _ = await asyncio.wait({*pending, gone}, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
                pending -= done
                if pending and gone.done():
                    why = "client left"
                    raise Refused(499, CLIENT_GONE)
            return [work.done.result() for work in works]
        finally:
            if gone is not None:
                gone.cancel()
            if pending:
                self.batcher.drop(*(work for work in works if not work.done.done()), why=why)

    async def stream(self, request: Request, parsed: AnswerRequest) -> Response:
        """An answer as server-sent events: pieces of text, then `done` with the answer."""
        (question,), task = parsed.questions, parsed.run.task
        if question.error:
            self.metrics.answered(parsed.run.name, 1, 1)
            raise Refused(422, question.error)
        if not task.streams or parsed.changes:
            (answer,) = await self.answers(request, parsed)
            if "error" in answer:
                raise Refused(422, answer["error"])
            return Response(event({"text": answer["text"]}) + event({"answers": [answer]}, "done"), **EVENTS)
        work = TextStream(self.written(parsed))
        self.batcher.put(work)
        end = asyncio.get_running_loop().time() + self.limits.seconds
        try:  # an error of the input is raised here, before the first event
            first = await _next_piece(work, end, self.limits)
        except BaseException:
            self.batcher.drop(work, why="stream")
            raise
        return StreamingResponse(self.pieces(work, first, question.where, end), **EVENTS)

    async def pieces(self, work: TextStream, piece: str | StreamEnd, given: str, end: float) -> AsyncIterator[bytes]:
        """The events of a text while it is generated."""
        written = []
        try:
            while isinstance(piece, str):
                written.append(piece)
                yield event(piece.to_dict() if isinstance(piece, WrittenPiece) else {"text": piece})
                piece = await _next_piece(work, end, self.limits)
            answer = {"input": given, "text": "".join(written), "score": None}
            yield event({"answers": [answer if piece.answer is None else piece.answer.to_dict()]}, "done")
        except Exception as error:
            yield event({"error": explained(error).why}, "error")
        finally:
            if not work.done.done():
                self.batcher.drop(work, why="stream")

    # in the model thread

    def attention_file(self, parsed: AnswerRequest, wanted: Callable[[], bool]) -> bytes:
        """The answer to the one question, and all attention behind it; stops when the request is cancelled."""
        with parsed.run.while_wanted(wanted, parsed.changes):
            (answer,) = answers_to_request(parsed)
            self.metrics.answered(parsed.run.name, 1, int(bool(answer.error)))
            if answer.error:
                raise ValueError(answer.error)
            labels = (seen := answer.look(parsed.methods)).labels
            # the record names the run, not its folder on the server, and the changes that were applied
            made = {**labels.made, "run": parsed.run.name, "input": answer.input}
            return seen.labelled(replace(labels, made=made, changes=tuple(changes_as_json(parsed.changes)))).to_bytes()

    def written(self, parsed: AnswerRequest) -> Generator[str, None, Any]:
        """The answer to the one question, piece by piece."""
        try:
            answer = yield from parsed.run.stream(parsed.questions[0].input, **parsed.ask)
        except ValueError:
            self.metrics.answered(parsed.run.name, 1, 1)
            raise
        self.metrics.answered(parsed.run.name, 1)
        return answer


async def _next_piece(work: TextStream, end: float, limits: Limits) -> str | StreamEnd:
    """The next piece of a text, or its end."""
    try:
        async with asyncio.timeout_at(end):
            piece = await work.pieces.get()
    except TimeoutError:
        raise Refused(504, f"the text did not end within {limits.seconds:g} seconds: ask for fewer tokens") from None
    if isinstance(piece, BaseException):
        raise piece
    return piece


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client disconnects. The body has been read, so no other message can arrive."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def explained(error: BaseException) -> Refused:
    """The refusal that reports an error. The traceback of an internal error goes to stderr."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ValueError):
        return Refused(422, str(error) or "this cannot be answered")
    print(visible("".join(traceback.format_exception(error))), file=sys.stderr)  # a message may quote the request
    return Refused(500, f"{type(error).__name__}: this should not happen. The server's log has more; please report it.")


def guarded(handler: Handler) -> Handler:
    """The handler, with exceptions turned into error responses."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            refused = explained(error)
            return Response(status_code=499) if refused.status == 499 else error_response(refused)

    return answer
