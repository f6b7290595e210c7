"""What the emulated model says: an answer for a job, as a script of tokens with their text.

The tokens, under service.tokenizer, are exactly those that are charged and paced, one piece of text for each, and every
prefix of a text encodes to itself: whoever counts a stream again, cut off or not, finds the same number. Only the name
of a called tool has tokens without text, and so have the first tokens of a character that several make up.

The script depends on the conversation, what is wished of the answer, the seed and the number of the choice, and on
nothing else: tiers of one model give the same answer, and a worker that takes a job over goes on with the same text.
A limit only cuts it off. Knows nothing of time, pools or transport.
"""

from collections.abc import Sequence
from zlib import crc32

from service import tokenizer
from service.messages import Job, Turn
from workers.content.composition import Composition
from workers.content.instances import Unsatisfiable
from workers.content.lengths import RUN_MAX
from workers.content.phrases import book
from workers.content.script import Script

__all__ = ["RUN_MAX", "Script", "Unsatisfiable", "compose", "load"]


def load() -> None:
    """Loads the vocabulary, in half a second, and cuts the corpus; the first answer does it otherwise."""
    tokenizer.load()
    book()


def compose(job: Job, choice: int) -> Script:
    """The answer of one choice of a job. Raises Unsatisfiable.

    Prose is as long as `max_tokens`, bounded by what the context window still holds; without it, or where it is only a
    cap, it has a natural length of at least `min_tokens` and ends with a sentence, if one ends inside the window. Calls
    and JSON end where they end, if the limit lets them. A stop sequence ends text earlier.
    """
    assert job.context_left >= 1
    conversation, _ = job.prompt(choice)
    key = _key(conversation, job, choice)
    return Composition(job, conversation, key).script()


def _key(conversation: Sequence[Turn], job: Job, choice: int) -> str:
    """A seed for Random, the same in every process."""
    digest = 0
    for turn in conversation:
        digest = crc32(f"{turn.role}\0{turn.text}\0".encode("utf-8", "surrogatepass"), digest)
    distilled = "distilled/" if job.wish.mistakes else ""  # another model, whose words are other ones
    return f"{distilled}{digest}/{job.seed}/{choice}"
