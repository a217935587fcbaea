// Finding entries by their words.

// wordsOf splits a query; an entry is found if it contains all of them.
function wordsOf(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

const haystacks = new WeakMap();

// haystack is everything an entry says, in lower case.
function haystack(entry) {
  let text = haystacks.get(entry);
  if (text === undefined) {
    text = said(entry).join("\n").toLowerCase();
    haystacks.set(entry, text);
  }
  return text;
}

function said(entry) {
  const { raw, message } = entry;
  const parts = [entry.label, str(raw.summary), str(raw.name), str(raw.modelId), str(raw.customType), str(raw.label)];
  for (const b of entry.content) {
    parts.push(str(b.text), str(b.thinking));
    if (b.type === "toolCall") parts.push(str(b.name), ...strings(b.arguments));
  }
  if (message) parts.push(str(message.command), str(message.output), str(message.toolName), str(message.errorMessage));
  return parts;
}

// strings lists the strings in a value of JSON.
function strings(value) {
  const found = [];
  const rest = [value];
  while (rest.length > 0) {
    const v = rest.pop();
    if (typeof v === "string") found.push(v);
    else if (typeof v === "object" && v !== null) for (const member of Object.values(v)) rest.push(member);
  }
  return found;
}

function contains(entry, words) {
  const text = haystack(entry);
  return words.every((w) => text.includes(w));
}

// showFound opens the folds of an article that contain a word and marks the
// words in it.
function showFound(article, words) {
  for (const details of article.querySelectorAll("details")) {
    details.fill?.();
    const text = details.textContent.toLowerCase();
    if (words.some((w) => text.includes(w))) details.open = true;
  }
  mark(article, words);
}

// mark colours words without touching the elements, where the browser can.
function mark(article, words) {
  if (!globalThis.CSS?.highlights) return;
  const ranges = [];
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (words.length > 0 && walker.nextNode()) {
    const node = walker.currentNode;
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue; // positions would be off
    for (const w of words) {
      for (let at = text.indexOf(w); at >= 0; at = text.indexOf(w, at + w.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + w.length);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
