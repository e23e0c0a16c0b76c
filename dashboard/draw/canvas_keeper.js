// What the drawing canvas itself does not do: its own toolbar is switched off (it lies unseen over the canvas and takes strokes
// and taps there), Ctrl+Z takes the last stroke back, and the drawing outlives a reload of the page, in this tab only.

const KEY = "digit-lab-drawing", LONGEST = 1_000_000;

function canvasRoots() {
  return [...document.querySelectorAll(".st-key-draw_canvas *")].map((one) => one.shadowRoot).filter((root) => root?.querySelector(".dc-root"));
}

function switchOffToolbar() {
  for (const root of canvasRoots()) {
    if (root.querySelector("style.digit-lab")) continue;
    const style = document.createElement("style");
    style.className = "digit-lab";
    style.textContent = ".dc-toolbar { display: none !important; pointer-events: none !important; }";
    root.append(style);
  }
}

function types(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

export default function ({ data, setTriggerValue, parentElement }) {
  const host = parentElement.querySelector(".digit-lab-keeper");
  host.send = setTriggerValue;
  try {
    const stored = sessionStorage.getItem(KEY);
    if (data.content && data.content.length < LONGEST) sessionStorage.setItem(KEY, data.content);
    else if (!data.asks) sessionStorage.removeItem(KEY);  // it was cleared, or is more than is kept
    else if (stored) setTriggerValue("restored", stored);
  } catch { /* a browser that keeps nothing: the drawing ends with the page */ }
  switchOffToolbar();
  if (host.working) return;
  host.working = true;
  const press = (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.key.toLowerCase() !== "z" || types(event.target)) return;
    event.preventDefault();
    host.send("undone", Date.now());
  };
  document.addEventListener("keydown", press);
  const timer = setInterval(() => {
    if (host.isConnected) { switchOffToolbar(); return; }
    clearInterval(timer);
    document.removeEventListener("keydown", press);
  }, 100);
}
