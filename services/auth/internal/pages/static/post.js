// Sends the form of a page that leads back to an application by POST.
"use strict";

document.querySelector("form[data-post]").submit();
