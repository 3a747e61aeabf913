import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { signIn } from "./lib/api";

/** A one-time sign-in code after `#` authorizes this browser; it is removed from the address. */
async function enter(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  // If the code is refused, the page shows the sign-in view.
  await signIn(code).catch(() => undefined);
}

const target = document.getElementById("app");
void enter().then(() => {
  target?.replaceChildren();
  if (target) mount(App, { target });
});
