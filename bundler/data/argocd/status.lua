local labels = (obj.metadata or {}).labels or {}
local ours = labels["gpu-operator-post/object"] == "status"
local data = obj.data or {}
-- A Job shows its result in the operation. It starts after this object is healthy, so what an earlier try has left here
-- must not hold it up. Argo CD before 3.5 never finishes a sync after nil.
if not ours or (data.trigger or "") ~= "" then
  return {status = "Healthy", message = ""}
end
local message = (data.progress or "") .. " " .. (data.message or "")
if data.phase == "Failed" or data.phase == "TimedOut" then
  return {status = "Degraded", message = message}
end
if data.phase == "Succeeded" or data.phase == "Skipped" then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}
