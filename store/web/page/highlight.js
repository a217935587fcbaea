// Colours of code come once there is code: the script for them is as large as all
// else together.

const highlighter = document.currentScript?.dataset.highlight;

// trusted lets the one script through that the page loads by itself. A browser
// without Trusted Types takes the string.
function trusted(address) {
  const policy = globalThis.trustedTypes?.createPolicy("troupe", { createScriptURL: (url) => url });
  return policy && address === highlighter ? policy.createScriptURL(address) : address;
}

if (!globalThis.hljs) {
  let asked = false;
  globalThis.hljs = {
    getLanguage() {
      if (asked || !highlighter) return undefined;
      asked = true;
      const script = el("script", { load: () => recolour(document) });
      script.src = trusted(highlighter);
      document.head.append(script);
      return undefined;
    },
  };
}

// recolour gives code that is on the page already its colours.
function recolour(root) {
  for (const code of root.querySelectorAll(".code pre > code, .command code")) {
    const block = code.closest(".code");
    const language = block ? block.querySelector(".language")?.textContent : "bash";
    if (language) code.replaceChildren(highlighted(code.textContent, language));
  }
}
