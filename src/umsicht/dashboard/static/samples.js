// Brackets walk through the checkpoints.
import { onKey } from "./app.js";

for (const [key, id] of [["[", "earlier"], ["]", "later"]]) onKey(key, () => { const link = document.getElementById(id); if (link?.href) location.href = link.href; });
