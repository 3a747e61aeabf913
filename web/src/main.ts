import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { signIn } from "./lib/api";

/** A code behind the # lets this browser in, once; it is not to stay in the address. */
async function enter(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  // The page itself says so to a person who is not let in.
  await signIn(code).catch(() => undefined);
}

const target = document.getElementById("app");
void enter().then(() => {
  target?.replaceChildren();
  if (target) mount(App, { target });
});
