"""Programs that the emulated model writes: short, correct, and picked by words of the message. Data, and nothing else.

The last sample of a language is the one for everything else.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    language: str
    words: frozenset[str]
    code: str


def _sample(language: str, words: str, code: str) -> Sample:
    return Sample(language, frozenset(words.split()), code)


INTRODUCTIONS = (
    "Here is a version that works",
    "This does what you describe",
    "A short implementation looks like this",
)

# Words of a message that name a language.
LANGUAGES = {
    "javascript": {"javascript", "js", "node", "typescript", "ts", "react"},
    "sql": {"sql", "postgres", "sqlite", "mysql"},
    "bash": {"bash", "shell", "sh"},
    "go": {"go", "golang"},
    "rust": {"rust"},
    "python": {"python", "py"},
}

SAMPLES = {
    "fibonacci": _sample(
        "python",
        "fibonacci fib",
        '''
def fibonacci(n):
    """Return the n-th Fibonacci number, counting from zero."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
''',
    ),
    "reverse": _sample(
        "python",
        "reverse reverses palindrome",
        """
def reverse(text):
    return text[::-1]


def is_palindrome(text):
    letters = [c.lower() for c in text if c.isalnum()]
    return letters == letters[::-1]
""",
    ),
    "prime": _sample(
        "python",
        "prime primes",
        """
def is_prime(n):
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True
""",
    ),
    "factorial": _sample(
        "python",
        "factorial",
        """
def factorial(n):
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result
""",
    ),
    "sort": _sample(
        "python",
        "sort sorts sorting quicksort mergesort",
        """
def merge_sort(items):
    if len(items) <= 1:
        return items
    middle = len(items) // 2
    left, right = merge_sort(items[:middle]), merge_sort(items[middle:])
    merged = []
    while left and right:
        merged.append(left.pop(0) if left[0] <= right[0] else right.pop(0))
    return merged + left + right
""",
    ),
    "search": _sample(
        "python",
        "search binary find",
        """
def binary_search(items, target):
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low if low < len(items) and items[low] == target else -1
""",
    ),
    "add": _sample(
        "python",
        "add adds sum sums",
        """
def add(a, b):
    return a + b
""",
    ),
    "file": _sample(
        "python",
        "file files csv read reads lines",
        """
def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip() for line in file]
""",
    ),
    "python": _sample(
        "python",
        "",
        """
def process(items):
    result = []
    for item in items:
        if item is not None:
            result.append(item)
    return result
""",
    ),
    "debounce": _sample(
        "javascript",
        "debounce throttle delay",
        """
function debounce(action, wait) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), wait);
  };
}
""",
    ),
    "javascript": _sample(
        "javascript",
        "",
        """
function groupBy(items, key) {
  const groups = {};
  for (const item of items) {
    (groups[item[key]] ??= []).push(item);
  }
  return groups;
}
""",
    ),
    "sql": _sample(
        "sql",
        "",
        """
SELECT customer_id, count(*) AS orders
FROM orders
WHERE created_at >= date('now', '-30 days')
GROUP BY customer_id
ORDER BY orders DESC
LIMIT 10;
""",
    ),
    "bash": _sample(
        "bash",
        "",
        """
for file in *.log; do
  lines=$(wc -l < "$file")
  echo "$file: $lines"
done
""",
    ),
    "go": _sample(
        "go",
        "",
        """
func Unique(items []string) []string {
    seen := map[string]bool{}
    var result []string
    for _, item := range items {
        if !seen[item] {
            seen[item] = true
            result = append(result, item)
        }
    }
    return result
}
""",
    ),
    "rust": _sample(
        "rust",
        "",
        """
fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
""",
    ),
}
