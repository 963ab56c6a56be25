"""A client that takes nothing of its response is let go; one that takes some of it is not."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from mirada.web.options import Limits
from mirada.web.protocol import BoundedProtocol, bounded


class Transport(asyncio.Transport):
    """A connection whose client reads as much as the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.untaken, self.closing, self.aborted = 0, False, False

    def get_write_buffer_size(self) -> int:
        return self.untaken

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True

    def write(self, data: Any) -> None:
        self.untaken += len(data)


def connected() -> tuple[BoundedProtocol, Transport]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Nothing."""

    config = uvicorn.Config(app, http=bounded(Limits(sending=0.05)), log_config=None, ws="none")
    config.load()
    protocol = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})  # type: ignore[call-arg]
    assert isinstance(protocol, BoundedProtocol)
    transport = Transport()
    protocol.connection_made(transport)
    protocol.cycle = type(
        "Cycle", (), {"response_complete": False, "message_event": asyncio.Event()}
    )()  # a response is sent
    return protocol, transport


@pytest.mark.parametrize("how", ["paused", "closing"])
def test_a_response_that_is_not_read_is_cancelled(how: str) -> None:
    async def main() -> None:
        protocol, transport = connected()
        transport.untaken = 100_000
        if how == "paused":
            protocol.flow.write_paused = True
        transport.closing = how == "closing"
        for _ in range(4):  # some of it is taken every time
            await asyncio.sleep(0.04)
            transport.untaken -= 1
            assert not transport.aborted
        await asyncio.sleep(0.2)
        assert transport.aborted
        protocol.connection_lost(ConnectionResetError())
        assert protocol.timer is None

    asyncio.run(main())


def test_a_response_that_waits_for_the_model_is_not_given_up() -> None:
    async def main() -> None:
        protocol, transport = connected()
        await asyncio.sleep(0.2)
        assert not transport.aborted
        assert not transport.closing
        protocol.connection_lost(None)

    asyncio.run(main())
