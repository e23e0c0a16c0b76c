"""Colours, and the style of every page. No Streamlit here."""

# From Okabe and Ito's colour-blind-safe set, in tones that stand out on white and on near-black alike.
TRAIN = "#3a8fd0"
VALIDATION = "#e08a00"
TEST = "#12a07a"
EVAL_MODE = "#12a07a"
TRAIN_MODE = "#d1495b"
SECOND_MODEL = "#7a7fe0"
PARENT_RUN = "#8a8f98"
GPU_MEMORY = "#b565c2"
# Twins of an experiment: (colour, dash).
TWINS = {
    "plain": ("#7d8590", "solid"),
    "BatchNorm": ("#5b5fc7", "solid"),
    "Dropout": ("#a9762f", "dash"),
    "BatchNorm and Dropout": ("#1f9aa8", "dot"),
}
RAW = "rgba(58, 143, 208, 0.45)"
PROBLEM = "#d1495b"

# Streamlit leaves 6 rem above a page and sets titles at 2.75 rem: the curves would begin below the fold.
PAGE_STYLE = """<style>
.stMainBlockContainer { padding-top: 3.75rem; padding-bottom: 4rem; }
.stMainBlockContainer h1 { font-size: 1.75rem; padding: 0.25rem 0; }
.digit-lab-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.digit-lab-band { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 0.5rem; }
.digit-lab-band > div { border: 1px solid rgba(128, 128, 128, 0.3); border-radius: 0.5rem; padding: 0.2rem 0.75rem 0.3rem;
  min-width: 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; line-height: 1.35; }
.digit-lab-band small, .digit-lab-band span { opacity: 0.75; font-size: 0.8rem; }
.digit-lab-band small { display: block; }
.digit-lab-band b { font-size: 1.3rem; font-weight: 600; }
.digit-lab-progress { display: block; width: 100%; height: 6px; margin-top: 0.4rem; border: 0; border-radius: 3px;
  overflow: hidden; appearance: none; background: rgba(128, 128, 128, 0.25); }
.digit-lab-progress::-webkit-progress-bar { background: rgba(128, 128, 128, 0.25); }
.digit-lab-progress::-webkit-progress-value { background: #3a8fd0; }
.digit-lab-progress::-moz-progress-bar { background: #3a8fd0; }
.stElementContainer:has(> .stHtml > style), .stElementContainer:has(.digit-lab-unseen) { position: absolute; }
.st-key-run_verdict { min-height: 2.75rem; }
.st-key-run_verdict p { font-size: 0.9rem; }
.st-key-run_panel > [data-testid="stLayoutWrapper"] > [data-testid="stVerticalBlock"] { gap: 0.6rem; }
/* What opens the sidebar is a bare arrow; it is the only way to the settings and to Start. */
[data-testid="stExpandSidebarButton"] { width: auto; padding: 0 0.5rem; }
[data-testid="stExpandSidebarButton"]::after { font-size: 0.9rem; }
body:has(.st-key-run_panel) [data-testid="stExpandSidebarButton"]::after { content: "Settings and Start"; }
.st-key-stages { column-gap: 0.6rem; row-gap: 0; }
.st-key-stages figure { margin: 0 !important; }
/* The picture's title stands above the switch already; a screen reader has the switch's own name. */
[class*="st-key-stage_"] [data-testid="stWidgetLabel"] [data-testid="stMarkdownContainer"] { display: none; }
@media (min-width: 641px) { .st-key-run_verdict { flex-wrap: nowrap; } }
@media (max-width: 640px) {
  /* The curves first: how they are drawn stands below them, then the tabs. */
  [data-testid="stLayoutWrapper"]:has(> .st-key-chart_bar) { order: 1; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-run_rest) { order: 2; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-run_controls):not(:has(button:enabled)) { display: none; }
  [data-testid="stExpandSidebarButton"]::after { content: "Pages"; }
  body:has(.st-key-run_panel) [data-testid="stExpandSidebarButton"]::after { content: "Pages, settings and Start"; }
  /* Six stages in one row, so that a switch and the answer above it are seen together. */
  .st-key-stages { column-gap: 0.25rem; }
  .st-key-stages > :has(figure), .st-key-stages > :has(figure) > * { min-width: 0; width: 100% !important; }
  .st-key-stages > :has(figure) { flex: 0 0 calc((100% - 1.3rem) / 6) !important; }
  [class*="st-key-stage_"] figure, [class*="st-key-stage_"] img { width: 100% !important; height: auto; }
  [class*="st-key-stage_"] figcaption { font-size: 0.65rem !important; white-space: nowrap; overflow: hidden; }
  [class*="st-key-stage_"] [data-testid="stWidgetLabel"] { display: none; }
  .st-key-model_row p { font-size: 0.85rem; }
  .st-key-mend_speed_now { display: none; }  /* it stands under Speed, too */
  .st-key-run_controls .stButton button { padding: 0.25rem 0.5rem; }
  .stMainBlockContainer { padding-left: 1rem; padding-right: 1rem; }
  .digit-lab-band { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .digit-lab-band > div:nth-child(5) { display: none; }
  .digit-lab-band > div { padding: 0.1rem 0.5rem 0.15rem; }
  .digit-lab-band b { font-size: 1.1rem; }
}
</style>"""
