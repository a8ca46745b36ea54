// The live page of a monitor: asks for its content every two seconds. An answer is HTML that the server has escaped.
"use strict";
const content = document.getElementById("content");
history.replaceState(null, "", "/");  // the token is a cookie now

async function renew() {
  try {
    const answer = await fetch("/api/monitor");
    if (!answer.ok) throw new Error(String(answer.status));
    const made = await answer.text();
    if (made !== content.dataset.last) {
      const open = [...content.querySelectorAll("details[open]")].map((x) => x.id);
      content.innerHTML = content.dataset.last = made;
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    }
    setTimeout(renew, 2000);
  } catch {
    const end = document.createElement("p");
    end.className = "ended";
    end.textContent = "The run has ended, or its process is gone: this is what was last seen.";
    content.prepend(end);
  }
}
renew();
