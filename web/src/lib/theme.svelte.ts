// Dark or light: as the system says, or as a person chose; in an editor's panel as the editor is.
//
// The style sheet defines the light colors once, in a `prefers-color-scheme: light` rule; a choice changes the rule's media
// condition.
import { choices } from "./choices";
import { panel } from "./panel";

const KEPT = "subscope-theme";
const LIGHT = "(prefers-color-scheme: light)";

export type Choice = "system" | "dark" | "light";

const media = (choice: Choice): string => ({ system: LIGHT, light: "all", dark: "not all" })[choice];

class Theme {
  choice: Choice = $state("system");
  /** Incremented when colors change, so that canvases are redrawn. */
  epoch = $state(0);
  /** Whether the editor around the page decides. */
  readonly isFixed = panel !== null;
  #rules: CSSMediaRule[] = [];

  start(): void {
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
    this.#rules = rules.filter((rule) => rule instanceof CSSMediaRule).filter((rule) => rule.conditionText === LIGHT);
    matchMedia(LIGHT).addEventListener("change", () => (this.epoch += 1));
    if (this.isFixed) return this.#follow(document.body);
    const kept = choices.get(KEPT);
    if (kept === "dark" || kept === "light") this.choose(kept);
  }

  choose(choice: Choice): void {
    this.#apply(choice);
    choices.set(KEPT, choice === "system" ? null : choice);
  }

  /** Follows the mark that the editor keeps at the body of the page. */
  #follow(body: HTMLElement): void {
    const apply = (): void => this.#apply(/light/.test(body.dataset["vscodeThemeKind"] ?? "") ? "light" : "dark");
    new MutationObserver(apply).observe(body, { attributeFilter: ["data-vscode-theme-kind"] });
    apply();
  }

  #apply(choice: Choice): void {
    this.choice = choice;
    for (const rule of this.#rules) rule.media.mediaText = media(choice);
    document.documentElement.style.colorScheme = choice === "system" ? "" : choice;
    this.epoch += 1;
  }
}

export const theme = new Theme();
