"""Messages between supervisor and keeper: one JSON object a packet; a closed channel is the other's death."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from holdtop.payload.custody import End

#: Of a longer word (a sentence with foreign text in it) this many characters are sent: a packet is read whole.
LONGEST_WORD = 4096
#: How long the last word waits for room, in seconds: the other side may have been stopped while many were said.
LAST_WORD_WAIT = 5.0


class Channel:
    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        #: The other side is gone: for ever readable, with nothing to read.
        self.closed = False

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, **content: object) -> None:
        """Quietly nothing when the other side is gone: its pidfd tells that, and better; nor when it does not read."""
        words = {key: word[:LONGEST_WORD] if isinstance(word, str) else word for key, word in content.items()}
        try:
            self._socket.send(json.dumps({"kind": kind, **words}).encode())
        except OSError:
            return

    def send_last(self, kind: str, **content: object) -> None:
        """What the other side must not miss: waits until there is room."""
        self._socket.settimeout(LAST_WORD_WAIT)
        self.send(kind, **content)
        self._socket.setblocking(False)

    def send_end(self, end: End) -> None:
        self.send("end", reason=end.reason, status=end.status, text=end.text)

    def receive(self) -> Iterator[dict[str, Any]]:
        """All that has arrived."""
        while True:
            try:
                packet = self._socket.recv(65536)
            except OSError:
                return
            if not packet:
                self.closed = True
                return
            yield json.loads(packet)

    def close(self) -> None:
        self._socket.close()
