"""An answer put together out of its parts, each as far as there is room for it: reasoning, then text, then calls.

What it says is drafted elsewhere; here it becomes tokens. Draws of its own for each purpose keep what is said the same,
whatever else is wished for.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, takewhile
from random import Random
from zlib import crc32

from service.messages import Call, FinishReason, Job, Part, Turn
from workers.content import forms, hints, lengths, thoughts
from workers.content.drafts import draft
from workers.content.draws import Draws
from workers.content.lengths import Room, Said
from workers.content.logprobs import Logprobs
from workers.content.mistakes import Draft
from workers.content.phrases import Phrase
from workers.content.prediction import Edit, used
from workers.content.prose import write
from workers.content.script import Script
from workers.content.spelling import SILENT, spell

REASONING_SIGMA = 0.5  # of its lognormal length
REASONING_SHARE = 0.5  # of what may be generated, at most
_PLAIN = Draft(shaped=True)


class Composition:
    """Of one choice. Invariant: `_texts` and `_wire` have an entry for each token so far, but for a stop sequence's."""

    def __init__(self, job: Job, conversation: Sequence[Turn], key: str) -> None:
        self._job = job
        self._conversation = conversation
        self._key = key
        self._most = job.context_left if job.max_tokens is None else min(job.context_left, job.max_tokens)
        self._form = forms.asked(hints.last(conversation))
        self._texts: list[str] = []
        self._wire: list[bytes] = []
        self._parts: list[tuple[int, Part]] = []

    def script(self) -> Script:
        """Raises Unsatisfiable."""
        if self._is_plain():
            plain = self._prose(_PLAIN)
            return Script(plain.tokens, plain.finish, plain.wire, stopped=plain.stopped)
        planned = draft(self._job.wish, self._conversation, self._form, self._key)
        self._think(planned)
        reasoning = len(self._wire)
        said = self._say(planned)
        finish = self._call(planned.calls, said)
        silent = said.tokens - len(said.wire) if said is not None else 0  # those of a stop sequence
        accepted, rejected = self._predicted(planned, said)
        return Script(
            len(self._wire) + silent,
            finish,
            self._wire,
            self._told(planned.mistake),
            self._logprobs(reasoning, said),
            said.stopped if said is not None else None,
            reasoning,
            accepted,
            rejected,
        )

    def _is_plain(self) -> bool:
        """Prose, of which nothing is wished but its length."""
        wish = self._job.wish
        wished = (
            wish.tools or wish.schema or wish.reasoning or wish.prediction or wish.scripted or wish.mistakes
            or wish.logprobs is not None
        )  # fmt: skip
        turn = hints.latest(self._conversation)
        return not wished and self._form != "json" and (turn is None or turn.role != "tool")

    def _think(self, planned: Draft) -> None:
        wish = self._job.wish
        if planned.reasoning:
            self._add(Part("reasoning"), [spell(planned.reasoning)], self._most)
        elif wish.reasoning and not planned.scripted:
            random = Random(f"{self._key}/reasoning")
            natural = round(Draws(random).lognormal(wish.reasoning, REASONING_SIGMA))
            most = int(self._most * REASONING_SHARE)
            sentences = lengths.gather(thoughts.thinking(random, self._conversation), min(max(natural, 1), most))
            if sentences:
                sentences[-1] = forms.ended(sentences[-1])
                self._add(Part("reasoning"), chain.from_iterable(sentences), most)

    def _say(self, planned: Draft) -> Said | None:
        """The text, if there is to be one and room for it."""
        left = self._most - len(self._wire)
        if left <= 0 or (planned.calls and not planned.text):
            return None
        said = self._prose(planned) if planned.text is None else self._fixed(planned.text)
        self._parts.append((len(self._wire), Part("text")))
        self._texts += said.texts
        self._wire += said.wire
        return said

    def _fixed(self, text: str) -> Said:
        return lengths.fixed(self._room(), spell(text) if text else SILENT)

    def _call(self, calls: Iterable[Call], said: Said | None) -> FinishReason:
        """Adds the calls, as far as there is room for them, and says how the answer ends."""
        if said is not None and (said.finish == "length" or said.stopped is not None):
            return said.finish
        finish: FinishReason = "stop"
        for call in calls:
            finish = "tool_calls"
            name = spell(call.name or " ")
            silent = Phrase(("",) * len(name.texts), (b"",) * len(name.texts))
            part = Part("tool_call", call.name, call.id)
            if not self._add(part, [silent, spell(call.arguments)], self._most):
                return "length"
        scripted = self._job.wish.scripted
        if said is None and finish == "stop":
            return "length"
        return scripted.finish if scripted is not None and scripted.finish is not None else finish

    def _add(self, part: Part, phrases: Iterable[Phrase], most: int) -> bool:
        """Whether there was room for all of it, until there are `most` tokens."""
        start = len(self._wire)
        if start >= most:
            return False
        self._parts.append((start, part))
        for phrase in phrases:
            self._texts += phrase.texts
            self._wire += phrase.wire
        complete = len(self._wire) <= most
        del self._texts[most:], self._wire[most:]
        return complete

    def _room(self) -> Room:
        job, gone = self._job, len(self._wire)
        return Room(
            limit=None if job.max_tokens is None else job.max_tokens - gone,
            window=job.context_left - gone,
            least=max(0, job.min_tokens - gone),
            endless=job.ignore_eos,
            capped=job.wish.capped,
            stop=job.stop,
            spelled=job.wish.logprobs is not None or bool(job.wish.prediction),
        )

    def _prose(self, planned: Draft) -> Said:
        random = Random(self._key)
        natural = round(Draws(random).lognormal(*self._job.wish.length))
        form = self._form if planned.shaped and self._form != "json" else None
        if planned.opening is None:
            sentences = write(random, self._conversation, form)
        else:
            sentences = thoughts.opened(planned.opening, random)
        return lengths.prose(self._room(), sentences, natural)

    def _told(self, mistake: str) -> tuple[tuple[int, Part], ...]:
        start, first = self._parts[0]
        return ((start, Part(first.kind, first.name, first.id, mistake=mistake)), *self._parts[1:])

    def _logprobs(self, start: int, said: Said | None) -> Logprobs | None:
        top = self._job.wish.logprobs
        if top is None:
            return None
        end = start + len(said.wire) if said is not None else start
        return Logprobs(self._texts, top, crc32(self._key.encode()) << 20, start, end)

    def _predicted(self, planned: Draft, said: Said | None) -> tuple[int, int]:
        """Tokens of the predicted output that were accepted, and those that were rejected."""
        prediction = self._job.wish.prediction
        if not prediction or said is None:
            return 0, 0
        changes = planned.changes
        if changes is None:
            text = planned.text if planned.text is not None else "".join(said.texts)
            pairs = zip(prediction, text, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            changes = (Edit(same, len(prediction), text[same:]),)
        return used(spell(prediction).texts, changes, said.texts)
